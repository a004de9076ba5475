#!/usr/bin/env bash
# Fuzzes the decoder of event streams and the reader of answers, from the corpus in crates/live/fuzz/corpus/sse.
#   scripts/fuzz.sh [--seconds N]
#   --seconds  how long (default 600)
# Wants a nightly toolchain (rustup toolchain install nightly) and cargo-fuzz (cargo install --locked cargo-fuzz).
# What it learns stays in the target folder; the corpus is not changed. Exit 0: nothing found.
set -euo pipefail

usage() { sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
seconds=600
while [[ $# -gt 0 ]]; do
  case $1 in
    --seconds) seconds=${2:?}; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done
cd "$(dirname "${BASH_SOURCE[0]}")/../crates/live"
cargo +nightly --version >/dev/null 2>&1 || { echo "fuzz: no nightly toolchain; rustup toolchain install nightly" >&2; exit 2; }
cargo +nightly fuzz --version >/dev/null 2>&1 || { echo "fuzz: no cargo-fuzz; cargo install --locked cargo-fuzz" >&2; exit 2; }

target=$(realpath -m "${CARGO_TARGET_DIR:-fuzz/target}")/fuzz
learnt=$target/learnt-sse
mkdir -p "$learnt"
# A stream of 64 KiB at most; any allocation over 64 MiB, or 512 MiB in all, is a finding.
exec cargo +nightly fuzz run --fuzz-dir fuzz --target-dir "$target" sse "$learnt" fuzz/corpus/sse -- \
  -max_total_time="$seconds" -max_len=65536 -malloc_limit_mb=64 -rss_limit_mb=512 -timeout=10 -print_final_stats=1
