#!/usr/bin/env bash
# Makes a small signed bundle and opens it with the tools of others: sha256sum, tar and zstd, openssl, a DSSE and an in-toto
# library, two RO-Crate libraries, a JSON Schema validator.
#   scripts/check_bundle_tools.sh [--python PYTHON] [--context FILE] [--acb FILE]
#   --python   an interpreter with scripts/bundle_tools/requirements.txt installed (default: a new virtual environment)
#   --context  a copy of https://w3id.org/ro/crate/1.1/context, where that can't be fetched
#   --acb      the program; it is built (development profile) when absent
# Exit 0: every tool agrees.
set -euo pipefail

usage() { sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
python='' context='' acb=''
while [[ $# -gt 0 ]]; do
  case $1 in
    --python) python=${2:?} ;;
    --context) context=$(realpath "${2:?}") ;;
    --acb) acb=$(realpath "${2:?}") ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift 2
done
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools=$PWD/scripts/bundle_tools small=$PWD/crates/acb/tests/front_door/small.yaml
if [[ -z $acb ]]; then
  cargo build --locked -p acb --bin acb
  acb=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug/acb
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ -z $python ]]; then
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" install -q -r "$tools/requirements.txt"
  python=$work/venv/bin/python
fi
cd "$work"

"$acb" key new --out me.key >/dev/null
"$acb" run "$small" --output-dir out --set seeds.count=1 --set workload.requests=20 --allow unit-floor >/dev/null
"$acb" bundle out --key me.key --out small >/dev/null

(cd small && sha256sum --strict --quiet -c SHA256SUMS)
echo "sha256sum -c: $(wc -l <small/SHA256SUMS) files agree"
mkdir unpacked
zstd -dcq small.tar.zst | tar -x -C unpacked
diff -r small unpacked/small
echo "zstd, tar: the archive unpacks to the folder"
openssl pkey -in me.key -pubout | cmp - me.key.pub
echo "openssl: the private key gives the public key"
mkdir schemas
for name in bundle merkle report; do "$acb" schema "$name" >"schemas/$name.json"; done
"$python" "$tools/check.py" small me.key.pub schemas ${context:+"$context"}
