#!/usr/bin/env bash
# Writes reports/findings/pytorch-2.13-to-2.15.md: which decisions changed between the releases, by suite and operator.
# With --check, only says whether it is fresh (exit code 1 if not).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/generated_file.sh
source scripts/generated_file.sh

generated_file reports/findings/pytorch-2.13-to-2.15.md \
  python3 -B scripts/release_findings.py "$binary" dtensor-2.13 dtensor-2.15
exit "$stale"
