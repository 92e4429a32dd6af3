#!/usr/bin/env bash
# Writes configs/stacks/calibrated-*.json: each holds curves fitted to committed measurements of one kind of machine.
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

# 8 GPUs of one host, and 2 hosts that InfiniBand joins.
fitted calibrated-a100 \
  a100-40g_1x8_{all_gather,reduce_scatter,all_reduce,alltoall,broadcast}_superbench \
  a100-40g_2x8_{all_gather,all_reduce,alltoall}_alcf-sophia
fitted calibrated-h100 \
  h100_1x8_all_reduce_dgxc h100_1x4_all_gather_snellius \
  h100_1x4_{all_gather,all_reduce}_xxrjun-c01 \
  h100_1x8_{all_gather,reduce_scatter,all_reduce,alltoall,sendrecv}_xxrjun-c01 \
  h100_10x1_{all_gather,all_reduce,alltoall}_xxrjun-c01 \
  h100_10x8_{all_gather,reduce_scatter,all_reduce,alltoall,sendrecv}_xxrjun-c01 \
  h100_2x8_all_reduce_{issue309a,nebius-dstack} h100_4x8_all_reduce_issue309a
fitted calibrated-b200 \
  b200_1x8_{all_gather,reduce_scatter,all_reduce,alltoall}_vultr \
  b200_2x8_all_gather_vultr b200_2x8_all_reduce_lambda-dstack b200_2x8_sendrecv_vultr-v2
exit "$stale"
