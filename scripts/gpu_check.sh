#!/usr/bin/env bash
# Checks shardlab on a machine with an NVIDIA GPU that needs only the driver, CUDA, NCCL and Python.
# shardlab is built on another machine and carried there:
#
#   cmake --preset nccl -DSHARDLAB_STATIC=ON && cmake --build build/nccl --target shardlab
#   scripts/gpu_check.sh --binary build/nccl/bin/shardlab build/gpu_check
#
# Build it against an NCCL that has the same major version as that machine's and is no newer. Where NCCL and
# cuBLASLt are not installed, the wheels nvidia-nccl-cu13 and nvidia-cublas do: unzip them into a folder F and
# add -DNCCL_ROOT=F/nvidia/nccl -DCUBLASLT_ROOT=F/nvidia/cu13. Without a GPU, rehearse with
# --binary build/release/tests/shardlab_mock_gpu --kernel-bytes 64MiB --plans 120
#
# --parts LIST          what is checked, in this order: kernels,step,plans,links (all of them)
# --time-limit SECONDS  when the check ends (540, since machines that are lent often end a command after ten
#                       minutes); what it leaves no time for fails, and can be run later with --parts
# --kernel-bytes SIZE   the largest kernel that is measured (1GiB); take less for a rehearsal
# --plans N             plans run on 2 ranks, and again on 4 (520, so 1040 in all), in launches of at most 130
#                       plans; at least 97 % of all must be equal bit for bit
#
# The script prints a line with a figure for each check, and exits 1 when a check fails. The part step needs a
# PyTorch that can use the GPU: it profiles training steps of a LLaMA block, eager and compiled, and sets them
# beside the prediction. The part links needs several GPUs.
#
# It writes into the folder (default: $OUT, else build/gpu_check): kernels.json, ranks2.json and ranks4.json
# are measurement sets; profile_eager.json.gz and profile_compiled.json.gz are traces of PyTorch, and
# summary.txt and log.txt say what happened. details.tar.gz holds the rest: NCCL's own table from its logs
# (nccl_table.json), a stack (roofline.json), tuner.conf, the trace of attention (attention.json.gz), and the
# set of each launch with plans (ranks2-0.json, ...).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }

binary=build/nccl/bin/shardlab
parts=kernels,step,plans,links
time_limit=540
kernel_bytes=1GiB
plans=520
out=${OUT:-build/gpu_check}
while (($#)); do
  case $1 in
    --binary) binary=${2:?--binary needs a path}; shift 2 ;;
    --parts) parts=${2:?--parts needs a list, as kernels,step}; shift 2 ;;
    --time-limit) time_limit=${2:?--time-limit needs a number of seconds}; shift 2 ;;
    --kernel-bytes) kernel_bytes=${2:?--kernel-bytes needs a size, as 64MiB}; shift 2 ;;
    --plans) plans=${2:?--plans needs a number}; shift 2 ;;
    --help | -h) usage; exit 0 ;;
    -*) echo "gpu_check: unknown option $1; valid: --binary PATH, --parts LIST, --time-limit SECONDS, --kernel-bytes SIZE, --plans N, --help, FOLDER" >&2; exit 2 ;;
    *) out=$1; shift ;;
  esac
done
IFS=, read -ra chosen <<< "$parts"
for part in "${chosen[@]}"; do
  [[ $part =~ ^(kernels|step|plans|links)$ ]] \
    || { echo "gpu_check: --parts: found \"$part\"; valid: kernels, step, plans, links" >&2; exit 2; }
done
for option in "--time-limit $time_limit" "--plans $plans"; do
  [[ ${option#* } =~ ^[1-9][0-9]{0,5}$ ]] \
    || { echo "gpu_check: ${option%% *}: found \"${option#* }\"; valid: a whole number from 1 to 999999" >&2; exit 2; }
done
[[ -x $binary ]] || { echo "gpu_check: $binary: no such program; build it as --help says" >&2; exit 2; }
mkdir -p "$out"
readonly log=$out/log.txt summary=$out/summary.txt
: > "$log"
: > "$summary"
export SHARDLAB_CONFIGS=$PWD/configs
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Takes NCCL and cuBLASLt from Python's packages if the system has none.
add_python_libraries() {
  ldd "$binary" | grep -q 'not found' || return 0
  local folders
  folders=$(python3 - << 'PYTHON' || true
import glob, site, sysconfig
roots = {sysconfig.get_paths()["purelib"], *site.getsitepackages()}
found = {f.rsplit("/", 1)[0] for root in roots for name in ("libnccl.so*", "libcublasLt.so*")
         for f in glob.glob(f"{root}/nvidia/**/{name}", recursive=True)}
print(":".join(sorted(found)))
PYTHON
  )
  export LD_LIBRARY_PATH=$folders${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

failures=0
say() { printf '%s\n' "$*" | tee -a "$summary"; }
# verdict NAME FIGURE CONDITION...: CONDITION is a command.
verdict() {
  local name=$1 figure=$2
  shift 2
  if "$@"; then
    say "ok    $name: $figure"
  else
    say "FAIL  $name: $figure"
    failures=$((failures + 1))
  fi
}
# How many seconds a command may take that wants at most this many: no more than are left.
seconds() {
  local left=$((time_limit - SECONDS))
  echo $((left < 1 ? 1 : left < $1 ? left : $1))
}
# run NAME COMMAND...: runs the command and keeps its stdout in $last; a failure is counted.
last=
run() {
  local name=$1 rc=0 began=$SECONDS size
  shift
  if ((SECONDS + 5 > time_limit)); then
    say "FAIL  $name: left out, since the $time_limit s of --time-limit are over; run it with --parts"
    failures=$((failures + 1))
    return 1
  fi
  printf '\n== %s\n' "$*" >> "$log"
  size=$(wc -c < "$log")
  last=$(timeout --kill-after=10 "$(seconds 300)" "$@" 2>> "$log") || rc=$?
  printf '%s\n' "$last" >> "$log"
  if ((rc)); then
    say "FAIL  $name: exit code $rc after $((SECONDS - began)) s: $(tail -c "+$((size + 1))" "$log" | grep . | tail -n 1 || true)"
    failures=$((failures + 1))
    return 1
  fi
  say "ok    $name: $((SECONDS - began)) s"
}
# figure EXPRESSION FILE: prints the value of a Python expression, in which d is the JSON document.
figure() { python3 -c 'import json, sys; d = json.load(open(sys.argv[2])); print(eval(sys.argv[1]))' "$1" "$2"; }
at_least() { python3 -c 'import sys; sys.exit(not float(sys.argv[1]) >= float(sys.argv[2]))' "$1" "$2"; }
below() { python3 -c 'import sys; sys.exit(not float(sys.argv[1]) < float(sys.argv[2]))' "$1" "$2"; }

add_python_libraries
if ldd "$binary" | grep 'not found'; then
  say "FAIL  libraries: those above were not found; set LD_LIBRARY_PATH"
  exit 1
fi
say "      $(nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,memory.total --format=csv,noheader 2> /dev/null \
  | head -n 1 || true)"

gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2> /dev/null | head -n 1 | tr 'A-Z ' 'a-z-' || true)
topology=  # that of the GPU, if one is shipped
case $gpu in
  *gh200*) ;;
  *gb200*) topology=gb200 ;;
  *h200*) topology=h200 ;;
  *h100*) topology=h100 ;;
  *b200*) topology=b200 ;;
  *a100*40gb*) topology=a100-40 ;;
  *a100*) topology=a100 ;;
esac

# show_kernels NAME FILE: what the shipped model says of the kernels of a measurement set or a trace.
show_kernels() {
  if run "kernels, $1" "$binary" validate "$2" --stack steps --topology "$topology" --rows --quiet; then
    say "$(sed -n '/^  kernel /p' <<< "$last")"
  fi
}

# Kernels, the roofline that half of them gives, and what the shipped model says of them, which never saw them.
check_kernels() {
  local kernels=$out/kernels.json error
  run "kernels" "$binary" measure --ranks 1 --kernels gemm,copy,reshuffle,elementwise,reduction,launch \
    --kernel-bytes "$kernel_bytes" --iterations 20 --time-limit "$(seconds 180)" --id "${gpu:-gpu}-kernels" \
    --out "$kernels" --quiet || return 0
  verdict "kernel rows, at least 60" "$(figure 'len(d["kernels"])' "$kernels")" \
    at_least "$(figure 'len(d["kernels"])' "$kernels")" 60
  say "      launch $(figure '[k["time_us"] for k in d["kernels"] if k["kernel"] == "launch"][0]' "$kernels") us"
  say "      best copy $(figure 'round(max(k["bytes"] / k["time_us"] for k in d["kernels"] if k["kernel"] == "copy") / 1e3)' "$kernels") GB/s"
  say "      best bf16 GEMM $(figure 'round(max([k["flops"] / k["time_us"] for k in d["kernels"] if k["kernel"] == "gemm" and k["dtype"] == "bf16"] or [0]) / 1e6)' "$kernels") TFLOP/s"
  if run "roofline from half of the rows" "$binary" calibrate "$kernels" --model roofline --hold-out --format json; then
    error=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["held_out"]["median_ape_percent"])' <<< "$last")
    verdict "roofline on the other half" "median error $error %" below "$error" 10
  fi
  run "roofline from all rows" "$binary" calibrate "$kernels" --model roofline --out "$scratch/roofline.json" || true
  [[ -z $topology ]] || show_kernels "as measured" "$kernels"
}

# Attention, and training steps of a LLaMA block, profiled by PyTorch and beside their prediction.
check_step() {
  if [[ -z $topology ]] || ! python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2> /dev/null; then
    say "      no step is profiled: PyTorch finds no GPU, or no topology is shipped for ${gpu:-an unknown GPU}"
    return 0
  fi
  local sizes=(--layers 1 --seq 4096 --micro-batch 2) mode trace flags
  for mode in eager compiled; do
    trace=$out/profile_$mode.json.gz
    flags=()
    [[ $mode == eager ]] || flags=(--compile)
    run "profile, $mode" python3 scripts/profile_step.py "${sizes[@]}" "${flags[@]}" --out "$trace" || continue
    if run "prediction, $mode" "$binary" step llama3-8b --mesh fsdp=1 --sharding full "${sizes[@]}" "${flags[@]}" \
      --topology "$topology" --profile "$trace" --format json; then
      say "      predicted ms, profiled ms: $(python3 -c '
import json, sys
parts = json.load(sys.stdin)["profile"]["parts"]
print("; ".join("%s %.2f, %.2f" % (name, part["predicted_ms"], part["profiled_ms"]) for name, part in parts.items()))
' <<< "$last")"
    fi
    show_kernels "$mode" "$trace"
  done
  run "profile, attention" python3 scripts/profile_attention.py --out "$scratch/attention.json.gz" || return 0
  show_kernels "attention" "$scratch/attention.json.gz"
}

# Plans on one GPU against the fake process group, in several launches, so that those that ended count even if a
# later one runs out of time; and, in the first launch, collectives.
check_plans() {
  local equal=0 ranks left launch now set collectives
  for ranks in 2 4; do
    left=$plans
    for ((launch = 0; left > 0; ++launch)); do
      now=$((left < 130 ? left : 130))
      left=$((left - now))
      set=$scratch/ranks$ranks-$launch.json
      collectives=()
      if ((launch == 0)); then
        collectives=(--collective "all_reduce,all_gather,reduce_scatter,all_to_all,broadcast,send_recv"
          --min-bytes 1KiB --max-bytes 4MiB --step-factor 4 --iterations 10 --warmup 2
          --nccl-log "$scratch/$ranks-ranks.log")
      fi
      run "$ranks ranks on one GPU, $now plans" "$binary" measure --one-gpu --ranks "$ranks" --verify-plans "$now" \
        --seed "$((ranks + 10 * launch))" "${collectives[@]}" --time-limit "$(seconds 240)" --stall-limit 60 \
        --id "${gpu:-gpu}-one-gpu-$ranks-ranks" --out "$set" --quiet || break
    done
    [[ -f $scratch/ranks$ranks-0.json ]] || continue
    set=$out/ranks$ranks.json
    sum_plans "$set" "$scratch"/ranks"$ranks"-*.json
    verdict "$ranks ranks, plans" "$(figure 'd["verified_plans"]' "$set")" \
      test "$(figure 'd["verified_plans"]["failed"]' "$set")" = 0
    equal=$((equal + $(figure 'd["verified_plans"]["bit_equal"]' "$set")))
    say "      rows $(figure 'len(d["rows"])' "$set"), with NCCL's choice $(figure 'sum("algorithm" in r for r in d["rows"])' "$set"), with its estimate $(figure 'sum("nccl_estimate_us" in r for r in d["rows"])' "$set")"
  done
  verdict "plans equal bit for bit" "$equal of $((2 * plans))" test "$((equal * 100))" -ge "$((2 * plans * 97))"
  check_recorded_set
}
# sum_plans OUT SET...: writes the first set with the plans of all. Each launch draws its plans from a seed of its
# own, which its set in details.tar.gz tells, and which stands before a failure.
sum_plans() {
  python3 - "$@" << 'PYTHON'
import json, sys
sets = [json.load(open(path)) for path in sys.argv[2:]]
launches = [each["verified_plans"] for each in sets]
total = dict(launches[0])
for name in ("plans", "bit_equal", "within_bound", "failed"):
    total[name] = sum(plans[name] for plans in launches)
failures = [f"seed {plans['seed']}: {plans['first_failure']}" for plans in launches if plans.get("first_failure")]
total.update({"first_failure": failure for failure in failures[:1]})
json.dump({**sets[0], "verified_plans": total}, open(sys.argv[1], "w"), indent=2)
PYTHON
}

# What was recorded is read again, fitted, held against other sizes, and exported.
check_recorded_set() {
  # Loopback is none of the shipped topologies, so NCCL's own tables are shown and not judged.
  if compgen -G "$scratch/*-ranks.log" > /dev/null \
    && "$binary" validate --nccl-table "$scratch"/*-ranks.log --stack nccl --topology h200 --format json \
      > "$scratch/nccl_table.json" 2>> "$log"; then
    say "      NCCL's own tables, entries $(figure '[len(t["cells"]) for t in d["tables"]]' "$scratch/nccl_table.json")"
  fi
  if [[ -f $out/ranks2.json ]]; then
    run "calibrate" "$binary" calibrate "$out/ranks2.json" --hold-out --out "$scratch/fitted.json" --quiet || true
    run "validate" "$binary" validate "$out/ranks2.json" --stack "$scratch/fitted.json" --quiet || true
  fi
  # The tuner gets what NCCL chose here if its log says so; else what the model nccl chooses on a public set.
  if [[ -f $out/ranks2.json ]] && (($(figure 'sum("algorithm" in r for r in d["rows"])' "$out/ranks2.json"))); then
    run "tuner CSV of this run" "$binary" describe tuner "$out/ranks2.json" && printf '%s\n' "$last" > "$scratch/tuner.conf"
  else
    run "tuner CSV of the model nccl" "$binary" calibrate h100_1x8_all_reduce_dgxc --model nccl \
      --tuner-csv "$scratch/tuner.conf" --quiet || true
  fi
  if [[ -f $scratch/tuner.conf ]] && run "tuner CSV, read again" "$binary" describe tuner "$scratch/tuner.conf"; then
    verdict "tuner CSV, round trip" "$(grep -vc '^#' "$scratch/tuner.conf") rules" \
      test "$last" = "$(cat "$scratch/tuner.conf")"
  fi
}

# Real links between several GPUs.
check_links() {
  local gpus
  gpus=$(nvidia-smi -L 2> /dev/null | wc -l || true)
  ((gpus > 1)) || return 0
  run "all $gpus GPUs, a process each" "$binary" measure --collective all_reduce,all_gather,reduce_scatter \
    --max-bytes 1GiB --step-factor 4 --verify-plans 50 --time-limit "$(seconds 120)" --quiet || true
  run "all $gpus GPUs, one process" "$binary" measure --one-process --ranks "$gpus" --verify-plans 50 \
    --time-limit "$(seconds 120)" --quiet || true
}

for part in kernels step plans links; do
  [[ ,$parts, != *,$part,* ]] || "check_$part"
done

tar -czf "$out/details.tar.gz" -C "$scratch" --transform 's,^\./,,' . 2>> "$log"

if pgrep -f "$binary measure" > /dev/null; then
  say "FAIL  processes are left: $(pgrep -f "$binary measure" | tr '\n' ' ')"
  failures=$((failures + 1))
fi
say "$failures failed; $SECONDS s"
((failures == 0))
