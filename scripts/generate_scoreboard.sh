#!/usr/bin/env bash
# Writes reports/scoreboard.md, which compares every stack with the committed measurements. With --check, only says
# whether it is fresh (exit code 1 if not).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/generated_file.sh
source scripts/generated_file.sh

generated_file reports/scoreboard.md "$binary" validate --scoreboard
exit "$stale"
