#!/usr/bin/env bash
# Measures the load generator beside hyper alone, against the same scripted server on 127.0.0.1: medians of runs in turn.
#   scripts/bench_live.sh [--rounds N] [--requests N] [--long]
#   --rounds    runs of each program, one after another in turn (default 5)
#   --requests  requests of a run with a write per token; four times as many with one write per answer (default 10000)
#   --long      also memory over 100,000 answers of 128 tokens, and 10,000 streams at once
# 64 requests in flight, 32 tokens an answer, one client thread. Ours records everything into files.
set -euo pipefail

usage() { sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
rounds=5 requests=10000 long=no
while [[ $# -gt 0 ]]; do
  case $1 in
    --long) long=yes; shift; continue ;;
    --rounds) rounds=${2:?} ;;
    --requests) requests=${2:?} ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift 2
done
gnu_time=$(type -P time) || { echo "bench_live: GNU time is missing; install the package time" >&2; exit 2; }

cd "$root"
echo "building" >&2
named() { sed -n "/\"name\":\"$1\"/"'s/.*"executable":"\([^"]*\)".*/\1/p'; }
work=$(mktemp -d)
server=
cleanup() {
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
cargo build --release --locked -q --message-format=json -p acb -p acb-live --bin acb --example ceiling >"$work/built.json"
acb=$(named acb <"$work/built.json")
ceiling=$(named ceiling <"$work/built.json")
ulimit -n "$(ulimit -Hn)" || true

# served SHAPE: starts the scripted server; its address is in $address.
served() {
  rm -f "$work/address"
  "$acb" serve-fake --shape "$1" --ports 0 >"$work/address" 2>"$work/server.log" &
  server=$!
  until [[ -s $work/address ]]; do
    kill -0 "$server" 2>/dev/null || { cat "$work/server.log" >&2; exit 1; }
    sleep 0.05
  done
  address=$(sed -n '1s|http://||p' "$work/address")
}
stopped() {
  kill "$server"
  wait "$server" 2>/dev/null || true
  server=
}
# field NAME FILE: the first number of this name in an indented JSON document.
field() { sed -n "s/^ *\"$1\": \([0-9.]*\),\{0,1\}\$/\1/p" "$2" | head -n 1; }
# ours REQUESTS IN_FLIGHT TOKENS: one recorded bench; a line `requests/s, CPU seconds, KiB`.
ours() {
  rm -rf "$work/out"
  local code=0
  "$gnu_time" -f '%U %S %M' -o "$work/time" "$acb" bench --url "http://$address" --model base --input-tokens 16 \
    --output-tokens "$3" --concurrency "$2" --requests "$1" --out "$work/out" >"$work/bench.log" 2>&1 || code=$?
  # Status 1: the client's check found that it computed all the time, which is what is measured here.
  [[ $code -le 1 && $(field ok "$work/out/bench.json") == "$1" ]] || { cat "$work/bench.log" >&2; return 1; }
  [[ $(wc -l <"$work/out/observations.jsonl") == "$1" ]] || { echo "rows are missing" >&2; return 1; }
  awk -v rps="$(field ok_rps "$work/out/bench.json")" 'END { printf "%.1f\t%.2f\t%d\n", rps, $1 + $2, $3 }' "$work/time"
}
hyper() {
  "$gnu_time" -f '%U %S %M' -o "$work/time" "$ceiling" "$address" "$1" 64 "$2" >"$work/ceiling.log" || return 1
  awk -F'\t' -v of="$(tail -n 1 "$work/time")" '{ split(of, t, " "); printf "%.1f\t%.2f\t%d\n", $1 / $2, t[1] + t[2], t[3] }' \
    "$work/ceiling.log"
}
# record CASE PROGRAM REQUESTS COMMAND...
record() {
  local at="$1	$2	$3" line
  shift 3
  line=$("$@") || { echo "bench_live: $at failed" >&2; exit 1; }
  printf '%s\t%s\n' "$at" "$line" >>"$work/results.tsv"
}

for round in $(seq "$rounds"); do
  for case in "each $requests ttft-ms=0,itl-ms=0,tokens=32" "coalesced $((4 * requests)) ttft-ms=0,itl-ms=0,tokens=32,coalesce"; do
    read -r name n shape <<<"$case"
    echo "round $round of $rounds: $name" >&2
    served "$shape"
    record "$name" "hyper, reads" "$n" hyper read "$n"
    record "$name" "hyper, parses and stamps" "$n" hyper parse "$n"
    record "$name" "acb bench, recorded" "$n" ours "$n" 64 32
    stopped
  done
done

printf 'date: %s\n' "$(date -u +%F)"
printf 'machine: %s, %s cores, load %s\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" \
  "$(cut -d' ' -f1 /proc/loadavg)"
printf 'versions: acb %s, %s\n\n' "$(git describe --always --dirty --exclude '*' 2>/dev/null || echo 'of unknown revision')" \
  "$(rustc --version | cut -d' ' -f1,2)"
printf '| writes | program | requests/s, median (least to most) | token events/s | CPU-s per 10,000 requests, median (least to most) | peak memory, MiB | runs | acb by this |\n'
printf '|---|---|---:|---:|---:|---:|---:|---:|\n'
sort -s -t'	' -k1,1r -k2,2r "$work/results.tsv" | awk -F'\t' '
  { key = $1 FS $2; if (!(key in n)) order[++keys] = key; rps[key, ++n[key]] = $4; cpu[key, n[key]] = 1e4 * $5 / $3
    if ($6 > most[key]) most[key] = $6 }
  # Sorts values[key, 1..n] and returns their median.
  function median(values, key,   i, j, t, m) {
    m = n[key]
    for (i = 2; i <= m; i++)
      for (j = i; j > 1 && values[key, j - 1] > values[key, j]; j--) { t = values[key, j]; values[key, j] = values[key, j - 1]; values[key, j - 1] = t }
    return m % 2 ? values[key, (m + 1) / 2] : (values[key, m / 2] + values[key, m / 2 + 1]) / 2
  }
  END {
    for (k = 1; k <= keys; k++) { rate[order[k]] = median(rps, order[k]); time[order[k]] = median(cpu, order[k]) }
    for (k = 1; k <= keys; k++) {
      key = order[k]; split(key, at, FS); ours = rate[at[1] FS "acb bench, recorded"]
      printf "| %s | %s | %d (%d to %d) | %d | %.2f (%.2f to %.2f) | %d | %d | %s |\n", at[1], at[2], rate[key], rps[key, 1], \
        rps[key, n[key]], rate[key] * 32, time[key], cpu[key, 1], cpu[key, n[key]], most[key] / 1024, n[key], \
        at[2] ~ /^acb/ ? "" : sprintf("%.2f", ours / rate[key])
    }
  }'

# From the start of the program to the first request at the server.
served ttft-ms=0,itl-ms=0,tokens=32
begun=$(date +%s%N)
ours 1 1 32 >/dev/null
exec 3<>"/dev/tcp/${address%:*}/${address#*:}"
printf 'GET /__trace HTTP/1.0\r\n\r\n' >&3
tail -n 1 <&3 >"$work/trace"
exec 3>&-
stopped
trace() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" "$work/trace"; }
printf '\nfirst request at the server %d ms after the start of the program\n' \
  $((($(trace origin_unix_ns) + $(trace received_ns) - begun) / 1000000))

echo
"$acb" selftest --duration 10s 2>/dev/null || true

if [[ $long == yes ]]; then
  served ttft-ms=0,itl-ms=0,tokens=128,coalesce
  line=$(ours 100000 64 128)
  stopped
  printf '\n100,000 answers of 128 tokens: peak memory %d MiB\n' $(($(cut -f3 <<<"$line") / 1024))
  served ttft-ms=5000,itl-ms=1000,tokens=8
  line=$(ours 10000 10000 8)
  stopped
  printf '10,000 streams at once: %s in flight, all ended well, peak memory %d MiB\n' \
    "$(field peak_in_flight "$work/out/bench.json")" $(($(cut -f3 <<<"$line") / 1024))
fi
