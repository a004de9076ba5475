#!/usr/bin/env bash
# Every check that a change must pass. The last line of the output counts the tests.
#   --with-deny  install cargo-deny when it is missing (minutes); it is used whenever it is there
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

deny_version=0.20.2
with_deny=no
case ${1-} in
  "") ;;
  --with-deny) with_deny=yes ;;
  *)
    echo "usage: scripts/test.sh [--with-deny]" >&2
    exit 2
    ;;
esac

step() { printf '\n== %s ==\n' "$*"; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT

step format
cargo fmt --all --check

step lints
cargo clippy --workspace --all-targets --locked -- -D warnings

step tests
if cargo nextest --version >/dev/null 2>&1; then
  cargo nextest run --workspace --locked 2>&1 | tee -a "$log"
else
  cargo test --workspace --locked --all-targets 2>&1 | tee -a "$log"
fi

step "doc tests"
cargo test --workspace --locked --doc 2>&1 | tee -a "$log"

if ! cargo deny --version >/dev/null 2>&1 && [[ $with_deny == yes ]]; then
  step "installing cargo-deny $deny_version"
  cargo install --locked cargo-deny --version "$deny_version"
fi
if cargo deny --version >/dev/null 2>&1; then
  step "licences, bans and sources"
  cargo deny --locked check bans licenses sources
else
  echo "cargo-deny is not installed: licences, bans and sources are not checked (--with-deny installs it)"
fi

# nextest: "Summary [ 1.2s] 34 tests run: 34 passed, 0 skipped"; cargo test: "test result: ok. 34 passed; ...".
count=$(sed 's/\x1b\[[0-9;]*m//g' "$log" |
  sed -n -e 's/.*tests\{0,1\} run: \([0-9]*\) passed.*/\1/p' -e 's/^test result: ok\. \([0-9]*\) passed.*/\1/p' |
  awk '{ sum += $1 } END { print sum + 0 }')
printf '\n%s tests passed\n' "$count"
