#!/usr/bin/env bash
# Writes costmodel/README.md from the models' own tables. With --check, only says whether it is fresh (exit
# code 1 if not).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/generated_file.sh
source scripts/generated_file.sh

generated_file costmodel/README.md "$binary" describe models
exit "$stale"
