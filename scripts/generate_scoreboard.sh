#!/usr/bin/env bash
# Writes reports/scoreboard.md: every stack against the committed measurements; with --check only says whether it is fresh (exit 1 if not).
set -euo pipefail
cd "$(dirname "$0")/.."

binary=${SHARDLAB_BINARY:-build/release/bin/shardlab}
if [[ ! -x $binary ]]; then
  scripts/build release shardlab
fi
if [[ ${1:-} == --check ]]; then
  "$binary" validate --scoreboard | diff -u reports/scoreboard.md - >&2 ||
    { echo "reports/scoreboard.md is stale: run scripts/generate_scoreboard.sh" >&2; exit 1; }
else
  "$binary" validate --scoreboard > reports/scoreboard.md
fi
