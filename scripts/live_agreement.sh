#!/usr/bin/env bash
# Runs one experiment on the simulator and on fake servers of the same engine model in real time, under load, and prints the
# summary metrics of both with the difference. Wants a quiet machine: exit status 1 when one differs by more than 5 %. Servers have
# their adapters in memory from the canary on, and the simulator reads them first: with few requests that shows in the tails.
#   scripts/live_agreement.sh [--rate RPS] [--requests N]
#   --rate      requests per second over two replicas (default 12)
#   --requests  requests of each of the two arms (default 600)
# Reads target/release/acb, or what ACB names.
set -euo pipefail

usage() { sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
rate=12 requests=600
while [[ $# -gt 0 ]]; do
  case $1 in
    --rate) rate=${2:?} ;;
    --requests) requests=${2:?} ;;
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
  --set "workload.arrivals={kind: poisson, rate_rps: $rate}" --set 'workload.output_tokens={law: fixed, value: 32}')
command="[\"$acb\", serve-fake, \"$file\", --replicas, \"1\", --ports, \"{port}\"]"
"$acb" run "$file" --output-dir sim "${common[@]}" >sim.out
"$acb" run "$file" --output-dir live "${common[@]}" --set "runtime={kind: vllm, command: $command}" >live.out

python3 - "$work" <<'PYTHON'
import json, sys
from pathlib import Path

work, worst = Path(sys.argv[1]), 0.0
same = ["request_throughput", "output_token_throughput", "slo_attainment", "quality_adjusted_slo_goodput", "p50_ttft_ms",
        "p95_ttft_ms", "mean_itl_ms", "mean_tpot_ms", "p50_e2e_ms", "p95_e2e_ms"]
names = [(name, name) for name in same] + [("simulated_prefix_hit_ratio", "server_prefix_hit_ratio")]
print(f"{'arm':8} {'metric':30} {'simulator':>12} {'servers':>12} {'apart':>8}")
for arm in ("spread", "local"):
    read = lambda way: json.loads((work / way / f"live-{arm}-s1" / "summary.json").read_text())["metrics"]
    simulated, live = read("sim"), read("live")
    for ours, theirs in names:
        a, b = simulated[ours]["value"], live[theirs]["value"]
        apart = abs(b - a) / abs(a) if a else abs(b)
        worst = max(worst, apart)
        print(f"{arm:8} {ours:30} {a:12.4f} {b:12.4f} {apart:7.1%}")
    check = json.loads((work / "live" / f"live-{arm}-s1" / "client_check.json").read_text())
    print(f"{arm:8} client: {check['validity']}")
print(f"worst: {worst:.1%}")
sys.exit(worst > 0.05)
PYTHON
