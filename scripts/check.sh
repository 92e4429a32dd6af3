#!/usr/bin/env bash
# The checks before a commit (quick), and before an issue is called finished (--full).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
Example: scripts/check.sh --fix

scripts/check.sh [--fix] [--full [--changed]] [STEP]...

  (no option)  the quick steps: format layers types shell python generated
  --fix        repair what can be repaired: format, generated files
  --full       also: tidy gcc clang asan tsan slow site package, and each fuzzer for SHARDLAB_FUZZ_SECONDS (60)
  --changed    with --full: clang-tidy reads only the files changed since the upstream branch
  STEP...      only these steps (fuzz: all fuzzers), of either kind
  --help       this text

Prints a line per step with its time, and the log of each that failed; exits 1 when one did. Logs are in
build/check. scripts/setup --for-checks installs the tools. SHARDLAB_JOBS bounds the jobs of a build.
TEXT
}

readonly QUICK=(format layers types shell python generated)
readonly FULL=(tidy gcc clang asan tsan slow site package fuzz)
readonly LOGS=build/check
readonly SKIPPED=77  # what a step returns when it has nothing to judge

fix=no
full=no
changed=no
steps=()
for arg in "$@"; do
  case $arg in
    --fix) fix=yes ;;
    --full) full=yes ;;
    --changed) changed=yes ;;
    --help | -h) usage; exit 0 ;;
    *)
      if [[ " ${QUICK[*]} ${FULL[*]} " != *" $arg "* ]]; then
        echo "check: unknown argument $arg; valid: --fix --full --changed --help, or a step: ${QUICK[*]} ${FULL[*]}" >&2
        exit 2
      fi
      steps+=("$arg")
      ;;
  esac
done
if ((${#steps[@]} == 0)); then
  steps=("${QUICK[@]}")
  [[ $full == no ]] || steps+=("${FULL[@]}")
fi
if [[ -x build/oracle/bin/python ]]; then
  export SHARDLAB_ORACLE_PYTHON=$PWD/build/oracle/bin/python
fi
jobs=${SHARDLAB_JOBS:-$(nproc)}

# --- Which files -------------------------------------------------------------------------------------

# Files of the tree that git does not ignore (without git: all outside build/), by name pattern.
files() {
  if git rev-parse --is-inside-work-tree &> /dev/null; then
    git ls-files --cached --others --exclude-standard -- "$@"
  else
    local pattern
    for pattern in "$@"; do find . -path ./build -prune -o -name "${pattern##*/}" -type f -print; done
  fi | while IFS= read -r file; do [[ ! -f $file ]] || printf '%s\n' "$file"; done | sort -u
}

shell_files() {
  files '*' | while IFS= read -r file; do
    case $file in
      *.sh | scripts/* | .ci/*) ;;
      *) continue ;;
    esac
    IFS= read -r first < "$file" || true
    if [[ $first =~ ^#!.*[/\ ](ba)?sh$ ]]; then printf '%s\n' "$file"; fi
  done
}

need() {
  command -v "$1" > /dev/null && return 0
  echo "$1 is not installed: scripts/setup --for-checks"
  return 1
}

# --- Quick steps ----------------------------------------------------------------------------------------

# clang-format breaks long literals and never joins them again, so that an edit can leave a word or two of a
# message on a line of their own. Prints the place of each literal of at most 14 characters that stands alone
# between two others, but for those that end a line of the message. The tests' own texts are left alone.
lone_literals() {
  awk '
    FNR == 1 { is_lone = 0; last = "" }
    FILENAME ~ /^tests\// { nextfile }
    is_lone && /^ *"/ { print FILENAME ":" FNR - 1 }
    {
      text = $0
      gsub(/^ *"|"$/, "", text)
      is_lone = last ~ /"$/ && last !~ /\\n"$/ && /^ *"([^"\\]|\\.)*"$/ && !/\\n"$/ && length(text) <= 14
      last = $0
    }' "$@"
}

check_format() {
  local clang_format=clang-format-14
  need $clang_format || return
  mapfile -t sources < <(files '*.h' '*.cpp')
  ((${#sources[@]})) || return $SKIPPED
  if [[ $fix == yes ]]; then
    $clang_format -i "${sources[@]}"
    return
  fi
  local report=$LOGS/format-diagnostics.log
  local verdict=0
  # clang-format leaves comments as they are, so their width is checked here.
  LC_ALL=C.UTF-8 grep -HnP '^(?=.{101})[^"]*//' "${sources[@]}" > "$LOGS/wide-comments.log" || true
  if [[ -s $LOGS/wide-comments.log ]]; then
    sed 's/^\([^:]*:[0-9]*\):.*/\1: a comment is wider than 100 columns/' "$LOGS/wide-comments.log"
    verdict=1
  fi
  lone_literals "${sources[@]}" > "$LOGS/lone-literals.log"
  if [[ -s $LOGS/lone-literals.log ]]; then
    sed 's/$/: a short literal stands alone on its line; join it with its neighbours/' "$LOGS/lone-literals.log"
    verdict=1
  fi
  $clang_format --dry-run --Werror "${sources[@]}" &> "$report" && return $verdict
  sed -n 's/^\([^ :]*\):[0-9]*:[0-9]*: error: .*/\1/p' "$report" | sort | uniq -c |
    awk '{print $2 ": " $1 " places to format"} END {print "scripts/check.sh --fix format does it"}'
  return 1
}

check_layers() { python3 -B scripts/check_layers.py; }
check_types() { python3 -B scripts/check_types.py; }

check_shell() {
  mapfile -t sources < <(shell_files)
  local script
  for script in "${sources[@]}"; do bash -n "$script" || return; done
  if ! command -v shellcheck > /dev/null; then
    echo "shellcheck is not installed: scripts/setup --for-checks (syntax alone was checked)"
    return $SKIPPED
  fi
  shellcheck --external-sources "${sources[@]}"
}

check_python() {
  mapfile -t sources < <(files '*.py')
  python3 -B - "${sources[@]}" <<'PYTHON'
import sys, tokenize
for path in sys.argv[1:]:
    with tokenize.open(path) as file:
        compile(file.read(), path, "exec", dont_inherit=True)
PYTHON
}

# Each scripts/generate_<what>.sh writes generated files that are committed; with --check it writes nothing
# and fails when they are stale. The stacks and the scoreboard come first, since other pages quote them.
check_generated() {
  local script found=no failed=0
  local -A seen=()
  for script in scripts/generate_{calibrated_stacks,scoreboard}.sh scripts/generate_*.sh; do
    [[ -e $script && -z ${seen[$script]-} ]] || continue
    seen[$script]=yes
    found=yes
    if [[ $fix == yes ]]; then "$script" || failed=1; else "$script" --check || failed=1; fi
  done
  [[ $found == yes ]] || return $SKIPPED
  return $failed
}

# --- Full steps -------------------------------------------------------------------------------------------

check_tidy() {
  need clang-tidy-14 && need clang++ || return
  scripts/build clang shardlab_version_header || return  # the only generated header
  local all=() sources=() file
  mapfile -t all < <(files '*.cpp' | grep -E '^(\./)?(costmodel|sim|strategies|reports|runner)/')
  if [[ $changed == yes ]]; then
    local base
    base=$(git merge-base HEAD '@{upstream}' 2> /dev/null || git rev-parse HEAD) || return
    local edited
    edited=$({ git diff --name-only "$base"; git ls-files --others --exclude-standard; })
    for file in "${all[@]}"; do
      [[ $'\n'$edited$'\n' != *$'\n'"$file"$'\n'* ]] || sources+=("$file")
    done
  else
    sources=("${all[@]}")
  fi
  # Only files that this build compiles are checked; without NCCL its backend is not among them.
  mapfile -t sources < <(for file in "${sources[@]}"; do
    if grep -qF "/${file#./}\"" build/clang/compile_commands.json; then printf '%s\n' "$file"; fi
  done)
  ((${#sources[@]})) || return $SKIPPED
  printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P "$jobs" clang-tidy-14 -p build/clang --quiet |&
    { grep -vE '^[0-9]+ warnings?( and [0-9]+ errors?)? generated\.$' || true; }
}

# ThreadSanitizer of GCC 12 cannot place its shadow where the kernel randomises 32 bits of an address.
without_aslr() {
  if setarch "$(uname -m)" -R true &> /dev/null; then setarch "$(uname -m)" -R "$@"; else "$@"; fi
}

build_and_test() { scripts/build "$1" && without_aslr ctest --preset "$1" --parallel "$jobs"; }
check_gcc() {
  need g++ || return
  CXX=g++ scripts/build release || return
  if ! grep -q 'CMAKE_CXX_COMPILER_ID "GNU"' build/release/CMakeFiles/*/CMakeCXXCompiler.cmake; then
    echo "build/release was not made by GCC; remove it"
    return 1
  fi
  ctest --preset release --parallel "$jobs"
}
check_clang() { need clang++ && build_and_test clang; }
check_asan() { build_and_test asan; }
check_tsan() { build_and_test tsan; }
check_slow() {
  scripts/build release &&
    ctest --test-dir build/release --label-regex '^slow$' --output-on-failure --parallel "$jobs"
}

check_site() { scripts/site; }

# Builds the wheel and the Debian package (minutes), and tries both in bare roots, which only root can make.
check_package() {
  if ((EUID == 0)); then scripts/package --try; else scripts/package; fi
}

fuzzers() { for file in tests/fuzz/*_fuzz.cpp; do [[ ! -e $file ]] || basename "$file" .cpp; done; }
check_fuzz_build() {
  need clang++ || return
  mapfile -t targets < <(fuzzers)
  ((${#targets[@]})) || return $SKIPPED
  scripts/build fuzz "${targets[@]}"
}
# Seeds are tests/fuzz/corpus/<fuzzer>/, a dictionary is tests/fuzz/<fuzzer>.dict; what it finds is in build/check.
check_fuzzer() {
  local name=$1 corpus=(build/fuzz/corpus/"$1") options=()
  mkdir -p "${corpus[0]}"
  [[ ! -d tests/fuzz/corpus/$name ]] || corpus+=("tests/fuzz/corpus/$name")
  [[ ! -f tests/fuzz/$name.dict ]] || options+=("-dict=tests/fuzz/$name.dict")
  # libFuzzer's own exit code of a finding is $SKIPPED's.
  build/fuzz/fuzz/"$name" -max_total_time="${SHARDLAB_FUZZ_SECONDS:-60}" -timeout=10 -print_final_stats=1 \
    -error_exitcode=1 -timeout_exitcode=1 -artifact_prefix="$LOGS/$name-" "${options[@]}" "${corpus[@]}"
}

# --- Running them -----------------------------------------------------------------------------------------

failed=()
passed=0
skipped=()
run_step() {
  local name=$1 log=$LOGS/$1.log code=0 begin=${EPOCHREALTIME/[.,]/} seconds
  shift
  ("$@") &> "$log" || code=$?
  seconds=$(((${EPOCHREALTIME/[.,]/} - begin) / 100000))
  local verdict=ok
  if ((code == SKIPPED)); then verdict=skip; elif ((code != 0)); then verdict=FAIL; fi
  printf '%-4s  %-24s %4d.%d s\n' "$verdict" "$name" $((seconds / 10)) $((seconds % 10))
  case $verdict in
    ok) passed=$((passed + 1)) ;;
    skip)
      skipped+=("$name")
      sed 's/^/        /' "$log"
      ;;
    FAIL)
      failed+=("$name")
      tail -n 40 "$log" | sed 's/^/        /'
      echo "        (the whole log: $log)"
      return 1
      ;;
  esac
}

mkdir -p "$LOGS"
for step in "${steps[@]}"; do
  if [[ $step == fuzz ]]; then
    if run_step fuzz_build check_fuzz_build; then
      for fuzzer in $(fuzzers); do run_step "$fuzzer" check_fuzzer "$fuzzer" || true; done
    fi
  else
    run_step "$step" "check_$step" || true
  fi
done

echo "$passed passed, ${#failed[@]} failed${failed[*]:+ (${failed[*]})}, ${#skipped[@]} skipped${skipped[*]:+ (${skipped[*]})}"
((${#failed[@]} == 0))
