#!/usr/bin/env bash
# Writes reports/scoreboard.md: every stack against the committed measurements; with --check only says whether it is fresh (exit 1 if not).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/generated_file.sh
source scripts/generated_file.sh

generated_file reports/scoreboard.md "$binary" validate --scoreboard
exit "$stale"
