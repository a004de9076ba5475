#!/usr/bin/env bash
# Measures how fast the simulator is, in requests per CPU second: medians of interleaved runs.
#   scripts/bench.sh [--peers] [--rounds N] [--seconds S]
#   --peers    also aisimulate-core (benches/peers/aisimulate, from the package registry) and Vidur, on the same lists
#   --rounds   runs of each program, one after another in turn (default 5)
#   --seconds  CPU seconds for which a fast program repeats one list in one run (default 1)
# Vidur is asked for when VIDUR_DIR names its source tree; VIDUR_PYTHON names a Python that has what
# benches/peers/vidur/requirements.txt lists (default python3). It runs the long list in the first round only.
set -euo pipefail

usage() { sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
peers=no rounds=5 seconds=1
while [[ $# -gt 0 ]]; do
  case $1 in
    --peers) peers=yes; shift; continue ;;
    --rounds) rounds=${2:?} ;;
    --seconds) seconds=${2:?} ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift 2
done

cd "$root"
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
results=$work/results.tsv

# named NAME: the path of the program of this name, from what cargo says about its build.
named() { sed -n "/\"name\":\"$1\"/"'s/.*"executable":"\([^"]*\)".*/\1/p'; }
echo "building" >&2
# One build for all three: the benchmarks bring the command line with them.
cargo bench --locked -q --no-run --message-format=json -p acb -p acb-sim --bench listed --bench scale >"$work/built.json"
acb=$(named acb <"$work/built.json")
listed=$(named listed <"$work/built.json")
scale=$(named scale <"$work/built.json")
aisimulate='' vidur=''
if [[ $peers == yes ]]; then
  if ! aisimulate=$(CARGO_TARGET_DIR="$target/peers" cargo build --release --locked -q --message-format=json \
    --manifest-path benches/peers/aisimulate/Cargo.toml | named aisimulate-peer); then
    aisimulate=
    echo "aisimulate-core: not measured, it did not build" >&2
  fi
  if [[ -z ${VIDUR_DIR-} ]]; then
    echo "Vidur: not present, VIDUR_DIR names no source tree" >&2
  elif ! PYTHONPATH=$VIDUR_DIR "${VIDUR_PYTHON:-python3}" -c 'import vidur.simulator' 2>"$work/vidur.log"; then
    echo "Vidur: not measured: $(tail -n 1 "$work/vidur.log")" >&2
  else
    vidur=$VIDUR_DIR
  fi
fi

# record CASE PROGRAM COMMAND...: appends a line `case program requests cpu_s output_tokens end_s steps runs`.
record() {
  local name=$1 program=$2 line
  shift 2
  line=$("$@" 2>"$work/stderr") || { tail -n 5 "$work/stderr" >&2; echo "bench: $program failed on $name" >&2; exit 1; }
  printf '%s\t%s\t%s\n' "$name" "$program" "$(tail -n 1 <<<"$line")" >>"$results"
}
# One experiment with all records written, through the command line; CPU time of the whole command, plan and report
# included.
with_records() {
  local out=$1 times requests
  times=$({ TIMEFORMAT='%U %S'; time "$acb" run benches/data/throughput.yaml --jobs 1 --output-dir "$out" \
    --set "workload.trace.path=$work/sim-8.csv" >"$work/run.log" 2>&1; } 2>&1) || { cat "$work/run.log" >&2; return 1; }
  requests=$(cat "$out"/*/requests.jsonl | wc -l)
  awk -v n="$requests" '{ printf "%d\t%.6f\t-\t-\t-\t1\n", n, $1 + $2 }' <<<"$times"
  du -sk "$out" | cut -f1 >"$work/records.kib"
  rm -rf "$out"
}

"$listed" write "$work"
for round in $(seq "$rounds"); do
  echo "round $round of $rounds" >&2
  for case in "sim-1 1" "sim-8 8"; do
    read -r name replicas <<<"$case"
    record "$name" acb "$listed" serve "$work/$name.csv" "$replicas" "$seconds"
    if [[ -n $aisimulate ]]; then
      record "$name" aisimulate "$aisimulate" "$work/$name.csv" "$work/servers.json" "$replicas" "$seconds"
    fi
    if [[ -n $vidur && ($name == sim-1 || $round == 1) ]]; then
      record "$name" vidur env PYTHONPATH="$vidur" "${VIDUR_PYTHON:-python3}" benches/peers/vidur/run.py \
        "$work/$name.csv" "$work/servers.json" "$replicas"
    fi
  done
  record sim-records acb with_records "$work/runs"
done

printf 'date: %s\n' "$(date -u +%F)"
printf 'machine: %s, %s cores, load %s\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" \
  "$(cut -d' ' -f1 /proc/loadavg)"
printf 'versions: acb %s, %s' "$(git describe --always --dirty --exclude '*' 2>/dev/null || echo 'of unknown revision')" "$(rustc --version | cut -d' ' -f1,2)"
[[ -z $aisimulate ]] || sed -n 's/^aisimulate-core = "=\(.*\)"/, aisimulate-core \1/p' benches/peers/aisimulate/Cargo.toml | tr -d '\n'
[[ -z $vidur ]] || printf ', Vidur %s, %s' "${VIDUR_VERSION:-of unknown version}" "$("${VIDUR_PYTHON:-python3}" --version)"
printf '\nrecords of one sim-records run: %s KiB\n\n' "$(cat "$work/records.kib")"

# Medians, spread and the ratio of ours to each, by case.
printf '| case | program | requests per CPU second, median (least to most) | runs | output tokens | simulated end, s | steps | acb is faster by |\n'
printf '|---|---|---:|---:|---:|---:|---:|---:|\n'
sort -s -k1,1 -k2,2 "$results" | awk -F'\t' '
  { key = $1 FS $2; if (!(key in n)) order[++keys] = key; rate[key, ++n[key]] = $3 / $4; told[key] = $5 FS $6 FS $7 }
  function median(key,   i, j, t, m) {
    m = n[key]
    for (i = 2; i <= m; i++)
      for (j = i; j > 1 && rate[key, j - 1] > rate[key, j]; j--) { t = rate[key, j]; rate[key, j] = rate[key, j - 1]; rate[key, j - 1] = t }
    return m % 2 ? rate[key, (m + 1) / 2] : (rate[key, m / 2] + rate[key, m / 2 + 1]) / 2
  }
  END {
    for (k = 1; k <= keys; k++) mid[order[k]] = median(order[k])
    for (k = 1; k <= keys; k++) {
      split(order[k], at, FS); split(told[order[k]], t, FS)
      ours = mid[at[1] FS "acb"]
      printf "| %s | %s | %d (%d to %d) | %d | %s | %s | %s | %s |\n", at[1], at[2], mid[order[k]], rate[order[k], 1], \
        rate[order[k], n[order[k]]], n[order[k]], t[1], t[2], t[3], at[2] == "acb" ? "" : sprintf("%.1f", ours / mid[order[k]])
    }
  }'

echo
"$scale"
# Instructions of one more run of sim-1: the difference takes what comes before and after out.
if command -v valgrind >/dev/null; then
  counted() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$listed" times "$work/sim-1.csv" 1 "$1" 2>&1 |
      sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
  }
  once=$(counted 1) twice=$(counted 2)
  printf '\nsim-1: %s instructions, %s a request (callgrind)\n' $((twice - once)) $(((twice - once) / 1000))
fi
