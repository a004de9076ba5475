#!/usr/bin/env bash
# Soak: `acb bench` at a steady rate against `acb serve-fake`, and whether memory and descriptors stay flat and no record is lost.
#   scripts/soak.sh [--seconds N] [--rate RPS] [--every N] [--out DIR]
#   --seconds  how long requests are sent (default 1800)
#   --rate     requests per second, Poisson (default 500)
#   --every    seconds between two samples (default 10)
#   --out      keep samples and the bench's own report here (default: nothing is kept)
# Requests sent, recorded and seen by the server must be the same number, and every answer whole. Whether the client was late is
# told and decides nothing here. Exit 0: sound. Exit 1: not. Exit 2: usage.
set -euo pipefail

usage() { sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
seconds=1800 rate=500 every=10 out=
while [[ $# -gt 0 ]]; do
  case $1 in
    --seconds) seconds=${2:?} ;;
    --rate) rate=${2:?} ;;
    --every) every=${2:?} ;;
    --out) out=$(realpath -m "${2:?}") ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift 2
done

cd "$root"
cargo build --release --locked -q -p acb
acb=${CARGO_TARGET_DIR:-target}/release/acb
work=$(mktemp -d)
server='' client=''
cleanup() {
  [[ -z $client ]] || kill "$client" 2>/dev/null || true
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

# Answers of 16 tokens in 200 ms, as in the timing part of `acb selftest`.
"$acb" serve-fake --shape ttft-ms=50,itl-ms=10,tokens=16 --ports 0 >"$work/address" 2>"$work/server.log" &
server=$!
until [[ -s $work/address ]]; do
  kill -0 "$server" 2>/dev/null || { cat "$work/server.log" >&2; exit 2; }
  sleep 0.05
done
url=$(head -n 1 "$work/address")
"$acb" bench --url "$url" --model base --input-tokens 16 --output-tokens 16 --rate "$rate" --duration "${seconds}s" \
  --out "$work/bench" >"$work/bench.log" 2>"$work/progress" &
client=$!

kib() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$1/status"; }
descriptors() { find "/proc/$1/fd" -mindepth 1 -maxdepth 1 2>/dev/null | wc -l; }
printf 'seconds\tclient_kib\tclient_descriptors\tserver_kib\tserver_descriptors\n' | tee "$work/samples.tsv"
begun=$SECONDS
while sleep "$every"; kill -0 "$client" 2>/dev/null && [[ $((SECONDS - begun)) -lt $seconds ]]; do
  printf '%d\t%d\t%d\t%d\t%d\n' $((SECONDS - begun)) "$(kib "$client")" "$(descriptors "$client")" "$(kib "$server")" \
    "$(descriptors "$server")" | tee -a "$work/samples.tsv"
done
code=0
wait "$client" || code=$?
client=

# The server keeps its newest 200,000 requests, and numbers all from 0.
address=${url#http://}
exec 3<>"/dev/tcp/${address%:*}/${address#*:}"
printf 'GET /__trace HTTP/1.0\r\n\r\n' >&3
at_server=$(grep -ao '"id":[0-9]*' <&3 | tail -n 1 | cut -d: -f2)
exec 3>&-
at_server=$((${at_server:--1} + 1))
kill "$server"
wait "$server" 2>/dev/null || true
server=

field() { sed -n "s/^ *\"$1\": \([0-9.]*\),\{0,1\}\$/\1/p" "$work/bench/bench.json" | head -n 1; }
sent=$(field sends)
ok=$(field ok)
requests=$(wc -l <"$work/bench/requests.jsonl")
observations=$(wc -l <"$work/bench/observations.jsonl")
if [[ -n $out ]]; then
  mkdir -p "$out"
  cp "$work/samples.tsv" "$work/bench/bench.json" "$work/bench.log" "$out"
fi

echo
cat "$work/bench.log"
printf '\nsent %s, ended well %s, recorded %s (observations %s), at the server %s\n' "$sent" "$ok" "$requests" "$observations" "$at_server"
# Flat: the last third of the samples is, in the median, within a twentieth and 2 MiB of the third before it.
# The server keeps its newest 200,000 requests, and grows until it has them.
awk -F'\t' -v requests="$at_server" '
  NR > 1 { for (c = 2; c <= 5; c++) at[c, NR - 1] = $c; n = NR - 1 }
  NR == 1 { for (c = 2; c <= 5; c++) name[c] = $c }
  function median(c, from, to,   i, j, t, m) {
    m = 0
    for (i = from; i <= to; i++) { v[++m] = at[c, i]; for (j = m; j > 1 && v[j - 1] > v[j]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t } }
    return m % 2 ? v[(m + 1) / 2] : (v[m / 2] + v[m / 2 + 1]) / 2
  }
  END {
    third = int(n / 3)
    if (third < 1) { print "too few samples to tell whether anything grows"; exit 1 }
    for (c = 2; c <= 5; c++) {
      before = median(c, n - 2 * third + 1, n - third); after = median(c, n - third + 1, n)
      room = name[c] ~ /kib/ ? before / 20 + 2048 : before / 20 + 16
      if (name[c] == "server_kib" && requests < 600000) {
        printf "%s: median %d, then %d: not judged, the server had fewer than 600,000 requests\n", name[c], before, after
        continue
      }
      grows = after > before + room; bad += grows
      printf "%s: median %d, then %d: %s\n", name[c], before, after, grows ? "GROWS" : "flat"
    }
    exit bad > 0
  }' "$work/samples.tsv" && flat=yes || flat=no
[[ $sent == "$requests" && $sent == "$observations" && $sent == "$at_server" ]] && counted=yes || counted=no
[[ $sent == "$ok" ]] && whole=yes || whole=no

if [[ $flat$counted$whole == yesyesyes && $code -le 1 ]]; then
  echo "verdict: sound. Memory and descriptors flat, every request answered and recorded"
else
  echo "verdict: NOT sound. flat: $flat; sent = recorded = at the server: $counted; every answer whole: $whole"
  exit 1
fi
