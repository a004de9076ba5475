#!/usr/bin/env bash
# Changes a signed bundle in many ways, and asks `acb verify` each time; then makes bundles of other results, moves them and
# asks again. Every change must be found, and no untouched bundle be doubted.
#   scripts/fuzz_bundle.sh [--mutations N] [--moved N] [--seed N] [--built DIR]
#   --mutations  changed bundles (default 500); --moved  untouched ones (default 50); --seed  what is drawn (default 1)
#   --built      folder with acb and examples/fuzz_bundle; both are built (development profile) when absent
# Exit 0: all found and no false alarm.
set -euo pipefail

usage() { sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
mutations=500 moved=50 seed=1 built=
while [[ $# -gt 0 ]]; do
  case $1 in
    --mutations) mutations=${2:?} ;;
    --moved) moved=${2:?} ;;
    --seed) seed=${2:?} ;;
    --built) built=$(realpath "${2:?}") ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift 2
done
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ -z $built ]]; then
  cargo build --locked -p acb --bin acb --example fuzz_bundle
  built=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug
fi
acb=$built/acb small=$PWD/crates/acb/tests/front_door/small.yaml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# One block of few requests: what is changed is the bundle, not the result.
few=(--set seeds.count=1 --set workload.requests=20 --allow unit-floor)
"$acb" key new --out me.key >/dev/null
"$acb" run "$small" --output-dir out "${few[@]}" >/dev/null
"$acb" bundle out --key me.key --out base >/dev/null
missed=0
"$built/examples/fuzz_bundle" base me.key.pub "$mutations" "$seed" || missed=1

alarms=0
mkdir moved
for n in $(seq 1 "$moved"); do
  # Other seeds, sizes and loads each time; signed and unsigned, folder and archive by turns.
  sets=(--set "seeds={first: $n, count: $((n % 3 + 1))}" --set "workload.requests=$((10 + n))" --set "workload.arrivals.rate_rps=$((n % 7 + 2))")
  "$acb" run "$small" --output-dir "results-$n" "${sets[@]}" --allow unit-floor >/dev/null
  sign=() trust=()
  if [[ $((n % 2)) -eq 0 ]]; then sign=(--key me.key) trust=(--public-key "$work/me.key.pub"); fi
  "$acb" bundle "results-$n" --out "b-$n" "${sign[@]}" >/dev/null
  rm -r "results-$n"
  if [[ $((n % 4)) -lt 2 ]]; then mv "b-$n" "moved/other-$n"; else mv "b-$n.tar.zst" "moved/other-$n"; fi
  if ! (cd / && "$acb" verify "$work/moved/other-$n" "${trust[@]}") >said 2>&1; then
    alarms=$((alarms + 1))
    echo "FALSE ALARM on bundle $n:"
    cat said
  fi
  rm -rf "b-$n" "b-$n.tar.zst" "moved/other-$n"
done
echo "$alarms false alarms on $moved untouched bundles, moved and renamed"
[[ $missed -eq 0 && $alarms -eq 0 ]]
