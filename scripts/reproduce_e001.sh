#!/usr/bin/env bash
# Reproduces experiment E001.
#   smoke      (default) every arm on simulated replicas, under a minute after the build
#   canonical  the full sweep; with --dry-run only the plans of the registered and the revised configuration
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: scripts/reproduce_e001.sh [smoke|canonical] [options of `acb run`...]
  smoke                run experiments/e001/smoke.yaml and report (the default)
  canonical            run experiments/e001/canonical.yaml and report
  canonical --dry-run  plan the configuration as registered and as revised; nothing is run
Results go below artifacts/runs of the repository unless --output-dir says otherwise.
USAGE
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

mode=smoke
if [[ $# -gt 0 && $1 != -* ]]; then
  mode=$1
  shift
fi
case $mode in
  smoke | canonical) ;;
  *)
    usage >&2
    exit 2
    ;;
esac

dry_run=no
output_dir=artifacts/runs
options=()
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --dry-run) dry_run=yes ;;
    --output-dir)
      output_dir=${2:?--output-dir needs a folder}
      shift
      ;;
    --output-dir=*) output_dir=${1#*=} ;;
    *) options+=("$1") ;;
  esac
  shift
done

cargo build --release --locked -p acb
acb=${CARGO_TARGET_DIR:-target}/release/acb
options=(--output-dir "$output_dir" ${options[@]+"${options[@]}"})
experiment=experiments/e001/$mode.yaml

if [[ $dry_run == yes ]]; then
  if [[ $mode == canonical ]]; then
    echo "== as registered =="
    # The registered plan can't answer its question: exit 1 with the reason is what should happen here.
    "$acb" plan experiments/e001/canonical-as-registered.yaml "${options[@]}" || {
      code=$?
      [[ $code -eq 1 ]] || exit "$code"
    }
    echo
    echo "== as revised =="
  fi
  exec "$acb" plan "$experiment" "${options[@]}"
fi

sweep=e001-$mode
"$acb" run "$experiment" --sweep-name "$sweep" --resume "${options[@]}"
report=$output_dir/_sweeps/$sweep/report.md
if [[ ! -s $report ]]; then
  echo "reproduce_e001: the run ended without its report $report" >&2
  exit 1
fi
echo "$report"
