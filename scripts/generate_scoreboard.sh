#!/usr/bin/env bash
# Writes reports/scoreboard.md, which compares every stack with the committed measurements, and models of training
# steps with published runs. With --check, only says whether it is fresh (exit code 1 if not).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/generated_file.sh
source scripts/generated_file.sh

# shellcheck disable=SC2317  # generated_file calls it
scoreboard() {
  "$binary" validate --scoreboard
  "$binary" validate --scoreboard --steps published
}
generated_file reports/scoreboard.md scoreboard
exit "$stale"
