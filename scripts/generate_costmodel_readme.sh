#!/usr/bin/env bash
# Writes costmodel/README.md from the models' own tables; with --check only says whether it is fresh (exit 1 if not).
set -euo pipefail
cd "$(dirname "$0")/.."

binary=${SHARDLAB_BINARY:-build/release/bin/shardlab}
if [[ ! -x $binary ]]; then
  scripts/build release shardlab
fi
if [[ ${1:-} == --check ]]; then
  "$binary" describe models | diff -u costmodel/README.md - >&2 ||
    { echo "costmodel/README.md is stale: run scripts/generate_costmodel_readme.sh" >&2; exit 1; }
else
  "$binary" describe models > costmodel/README.md
fi
