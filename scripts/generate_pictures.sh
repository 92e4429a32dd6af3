#!/usr/bin/env bash
# Draws docs/pictures, which docs/concepts.md shows. With --check, only says whether they are fresh (exit code 1 if
# not).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/generated_file.sh
source scripts/generated_file.sh

export SHARDLAB_BINARY=$binary
mkdir -p docs/pictures
for name in layouts plan stack regret; do
  generated_file "docs/pictures/$name.svg" python3 -B scripts/draw_concepts.py "$name"
done
exit "$stale"
