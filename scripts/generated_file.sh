# shellcheck shell=bash
# Sourced by scripts/generate_<what>.sh: keeps a committed file equal to what a command prints.
#
#   generated_file FILE COMMAND...   writes what COMMAND prints to FILE. If the script's first word is --check,
#                                    only says whether FILE is fresh, and sets stale=1 if it is not
#   $binary                          the program, which is built if it is not there
binary=${SHARDLAB_BINARY:-build/release/bin/shardlab}
if [[ ! -x $binary ]]; then
  scripts/build release shardlab
fi
check_only=0
[[ ${1:-} == --check ]] && check_only=1
stale=0

generated_file() {
  local file=$1
  shift
  if ((check_only)); then
    "$@" | diff -u "$file" - >&2 && return
    echo "$file is stale: run $0" >&2
    stale=1
  else
    "$@" > "$file"
  fi
}
