#!/usr/bin/env bash
# Writes the pages of reports/findings that scripts/findings makes, and their index.
#
#   scripts/generate_findings.sh [--check] [NAME...]
#
# Without a NAME: the pages that take seconds. `slow`: those that take minutes; `all`: every page. With --check, only
# says whether they are fresh (exit code 1 if not).
set -euo pipefail
cd "$(dirname "$0")/.."
export SHARDLAB_BINARY=${SHARDLAB_BINARY:-$PWD/build/release/bin/shardlab}
if [[ ! -x $SHARDLAB_BINARY ]]; then
  scripts/build release shardlab
fi
PYTHONPATH=scripts exec python3 -B -m findings "$@"
