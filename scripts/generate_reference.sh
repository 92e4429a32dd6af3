#!/usr/bin/env bash
# Writes docs/reference from the help of all commands and from the schemas of all files. With --check, only says
# whether it is fresh (exit code 1 if not).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/generated_file.sh
source scripts/generated_file.sh

export SHARDLAB_BINARY=$binary
mkdir -p docs/reference/files
generated_file docs/reference/commands.md python3 -B scripts/reference.py commands
generated_file docs/reference/files.md python3 -B scripts/reference.py files
kinds=$(python3 -B scripts/reference.py kinds)
for kind in $kinds; do
  generated_file "docs/reference/files/$kind.md" python3 -B scripts/reference.py file "$kind"
done
for page in docs/reference/files/*.md; do
  name=$(basename "$page" .md)
  [[ $'\n'$kinds$'\n' != *$'\n'"$name"$'\n'* ]] || continue
  echo "$page describes no schema of configs/schema; remove it" >&2
  stale=1
done
exit "$stale"
