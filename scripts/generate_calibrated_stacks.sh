#!/usr/bin/env bash
# Writes configs/stacks/calibrated-*.json: each holds what the healthy logs of configs/measurements say about the
# collectives of one GPU.
# With --check, only says whether they are fresh (exit code 1 if not).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/generated_file.sh
source scripts/generated_file.sh

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# generated_file calls this. The name of a stack is that of its file.
# shellcheck disable=SC2317
print_stack() {
  "$binary" calibrate "${@:2}" --quiet --out "$folder/$1.json" > /dev/null
  cat "$folder/$1.json"
}
fitted() {
  generated_file "configs/stacks/$1.json" print_stack "$@"
}

for gpu in a100 h100 h200 b200 gb200 mi300x mi355x; do
  fitted "calibrated-$gpu" --gpu "$gpu"
done
exit "$stale"
