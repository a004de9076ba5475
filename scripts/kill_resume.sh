#!/usr/bin/env bash
# Kills a sweep with SIGKILL at random moments, resumes it, and compares every record with an undisturbed run.
#   scripts/kill_resume.sh [--experiment FILE] [--kills N] [--seed N] [--seconds N]
# A sweep that finishes before its next kill is compared and a new one begun, until N kills have landed.
# Exit 0: all records equal. Exit 1: a difference. Exit 2: usage, or the time given was too short.
set -euo pipefail

usage() { sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
experiment=experiments/e001/smoke.yaml kills=20 seed=1 seconds=900
while [[ $# -gt 0 ]]; do
  case $1 in
    --experiment) experiment=${2:?} ;;
    --kills) kills=${2:?} ;;
    --seed) seed=${2:?} ;;
    --seconds) seconds=${2:?} ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift 2
done

cd "$root"
cargo build --release --locked -p acb
acb=${CARGO_TARGET_DIR:-target}/release/acb
work=$(mktemp -d)
child=
cleanup() {
  [[ -z $child ]] || kill -9 "$child" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
RANDOM=$seed

now_ms() { date +%s%3N; }
sweep() { "$acb" run "$experiment" --output-dir "$1" --sweep-name kill-resume --resume --jobs 2; }
# One line per record file: digest and path below the folder of runs.
digests() { (cd "$1" && find . -name '*.jsonl' -not -path './_sweeps/*' -not -name run_log.jsonl -exec sha256sum {} + | sort -k2); }
# The hash over all records that the program prints at the end of a sweep.
printed() { sed -n 's/^record digest: //p' "$1"; }
# Run folders in a state, by name.
in_state() { (cd "$1" && grep -lE "\"state\": *\"$2\"" -- */status.json 2>/dev/null || true) | sed 's|/status.json||'; }

echo "undisturbed run of $experiment" >&2
start=$(now_ms)
sweep "$work/reference" >"$work/reference.log" 2>&1 || { tail -n 20 "$work/reference.log" >&2; exit 1; }
whole_ms=$(($(now_ms) - start))
digests "$work/reference" >"$work/reference.sums"
runs=$(in_state "$work/reference" complete | wc -l)
[[ $runs -gt 0 ]] || { echo "kill_resume: the undisturbed run completed nothing" >&2; exit 1; }
# Kills fall a sixth of a sweep apart on average, so that a round takes several of them.
span_ms=$((whole_ms / 3 + 1))

printf '| kill | round | after ms | complete | running | interrupted | complete but different |\n'
printf '|---:|---:|---:|---:|---:|---:|---:|\n'
landed=0 round=1 finished=0 wrong=0
while [[ $landed -lt $kills ]]; do
  [[ $SECONDS -lt $seconds ]] || { echo "kill_resume: $landed of $kills kills in $seconds s; give it more time with --seconds" >&2; exit 2; }
  victim=$work/round-$round
  mkdir -p "$victim"
  "$acb" run "$experiment" --output-dir "$victim" --sweep-name kill-resume --resume --jobs 2 >"$work/victim.log" 2>&1 &
  child=$!
  after_ms=$(((RANDOM * 32768 + RANDOM) % span_ms))
  sleep "$(printf '%d.%03d' $((after_ms / 1000)) $((after_ms % 1000)))"
  kill -9 "$child" 2>/dev/null || true
  code=0
  wait "$child" 2>/dev/null || code=$?
  child=
  # 137: killed. 0: the sweep had ended before. Anything else is a fault of its own.
  case $code in
    0 | 137) ;;
    *) echo "kill_resume: a resumed sweep ended with status $code:" >&2; tail -n 20 "$work/victim.log" >&2; exit 1 ;;
  esac
  if [[ $code -eq 137 ]]; then
    landed=$((landed + 1))
    # What calls itself complete must already be what it will be in the end.
    different=0
    for run in $(in_state "$victim" complete); do
      for file in "$victim/$run"/*.jsonl; do
        sum=$(sha256sum <"$file" | cut -d' ' -f1)
        grep -qF "$sum  ./$run/$(basename "$file")" "$work/reference.sums" || different=$((different + 1))
      done
    done
    wrong=$((wrong + different))
    printf '| %d | %d | %d | %d | %d | %d | %d |\n' "$landed" "$round" "$after_ms" \
      "$(in_state "$victim" complete | wc -l)" "$(in_state "$victim" running | wc -l)" \
      "$(in_state "$victim" interrupted | wc -l)" "$different"
  fi
  if [[ $code -eq 0 || $landed -eq $kills ]]; then
    # The round ended by itself, or it was the last kill: finish it undisturbed and compare everything.
    sweep "$victim" >"$work/victim.log" 2>&1 || { tail -n 20 "$work/victim.log" >&2; exit 1; }
    digests "$victim" >"$work/victim.sums"
    if [[ $(printed "$work/victim.log") != "$(printed "$work/reference.log")" ]]; then
      echo "round $round: record digest $(printed "$work/victim.log") is not $(printed "$work/reference.log")"
      wrong=$((wrong + 1))
    fi
    if ! diff "$work/reference.sums" "$work/victim.sums" >"$work/diff"; then
      echo "round $round differs from the undisturbed run:"
      head -n 20 "$work/diff"
      wrong=$((wrong + 1))
    fi
    rm -rf "$victim"
    round=$((round + 1)) finished=$((finished + 1))
  fi
done

if [[ $wrong -eq 0 ]]; then
  echo "verdict: equal. $landed kills over $finished resumed sweeps of $runs runs (seed $seed); every record file equals the undisturbed run's"
  echo "record digest: $(printed "$work/reference.log")"
else
  echo "verdict: DIFFERENT. $wrong differences over $landed kills (seed $seed)"
  exit 1
fi
