#!/usr/bin/env bash
# Runs one experiment on the simulator and on fake servers of the same engine model in real time, under load, and prints the
# summary metrics of both with the difference. Wants a quiet machine: exit status 1 when one differs by more than 5 %. Servers have
# their adapters in memory from the canary on, and the simulator reads them first, so the first requests are left out of both.
# Few prefixes are hit, so that prefill keeps the servers busy: `spread` nearly, `local` (one replica has most of it) to its limit.
#   scripts/live_agreement.sh [--rate RPS] [--requests N] [--document-tokens N] [--warmup S]
#   --rate             requests per second over two replicas (default 10)
#   --requests         requests of each of the two arms (default 800)
#   --document-tokens  tokens of each of the 60 documents (default 2000)
#   --warmup           requests due in the first so many seconds are left out (default 20)
# Reads target/release/acb, or what ACB names.
set -euo pipefail

usage() { sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
rate=10 requests=800 document_tokens=2000 warmup=20
while [[ $# -gt 0 ]]; do
  case $1 in
    --rate) rate=${2:?} ;;
    --requests) requests=${2:?} ;;
    --document-tokens) document_tokens=${2:?} ;;
    --warmup) warmup=${2:?} ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift 2
done

acb=${ACB:-$root/target/release/acb}
file=$root/crates/acb/tests/front_door/live.yaml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
common=(--allow unit-floor --allow aliased-factors --set "workload.requests=$requests"
  --set workload.documents=60 --set workload.sessions=60 --set "workload.document_tokens=$document_tokens"
  --set "workload.arrivals={kind: poisson, rate_rps: $rate}" --set 'workload.output_tokens={law: fixed, value: 32}')
command="[\"$acb\", serve-fake, \"$file\", --replicas, \"1\", --ports, \"{port}\"]"
"$acb" run "$file" --output-dir sim "${common[@]}" >sim.out
"$acb" run "$file" --output-dir live "${common[@]}" --set "runtime={kind: vllm, command: $command}" >live.out

python3 - "$work" "$warmup" <<'PYTHON'
import json, statistics, sys
from pathlib import Path

work, warmup, worst, SLO_NS = Path(sys.argv[1]), float(sys.argv[2]) * 1e9, 0.0, 500e6

def percentile(values, p):
    return statistics.quantiles(values, n=100, method="inclusive")[p - 1]

def summary(folder):
    rows = [json.loads(line) for line in (folder / "requests.jsonl").open()]
    rows = [row for row in rows if row["due_ns"] >= warmup]
    ok = [row for row in rows if row["outcome"] == "ok"]
    wall = (max(row["ended_ns"] for row in rows) - min(row["due_ns"] for row in rows)) / 1e9
    ttft = [row["first_token_ns"] - row["due_ns"] for row in ok]
    e2e = [row["last_token_ns"] - row["due_ns"] for row in ok]
    tpot = [(row["last_token_ns"] - row["first_token_ns"]) / (row["output_tokens"] - 1) for row in ok]
    good = [row for row, first in zip(ok, ttft) if first <= SLO_NS]
    hits = [row["simulated_prefix_hit_tokens"] or row["server_prefix_hit_tokens"] or 0 for row in ok]
    return {
        "requests": len(rows), "request_throughput": len(ok) / wall,
        "output_token_throughput": sum(row["output_tokens"] for row in ok) / wall,
        "slo_attainment": len(good) / len(rows),
        "quality_adjusted_slo_goodput": sum(row["quality"] for row in good) / wall,
        "p50_ttft_ms": percentile(ttft, 50) / 1e6, "p95_ttft_ms": percentile(ttft, 95) / 1e6,
        "mean_tpot_ms": statistics.fmean(tpot) / 1e6,
        "p50_e2e_ms": percentile(e2e, 50) / 1e6, "p95_e2e_ms": percentile(e2e, 95) / 1e6,
        "prefix_hit_ratio": sum(hits) / sum(row["prompt_tokens"] for row in ok),
    }

print(f"{'arm':8} {'metric':30} {'simulator':>12} {'servers':>12} {'apart':>8}")
for arm in ("spread", "local"):
    simulated, live = (summary(work / way / f"live-{arm}-s1") for way in ("sim", "live"))
    for name in simulated:
        a, b = simulated[name], live[name]
        apart = abs(b - a) / abs(a) if a else abs(b)
        worst = max(worst, apart)
        print(f"{arm:8} {name:30} {a:12.4f} {b:12.4f} {apart:7.1%}")
    check = json.loads((work / "live" / f"live-{arm}-s1" / "client_check.json").read_text())
    print(f"{arm:8} client: {check['validity']} {check['faults'] or ''}")
print(f"worst: {worst:.1%}")
sys.exit(worst > 0.05)
PYTHON
