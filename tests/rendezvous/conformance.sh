#!/usr/bin/env bash
# Checks the store with PyTorch's own client: conformance.sh <store_main> <python with torch>
set -euo pipefail
store_main=$1 python=$2

[[ -x $python ]] || { echo "conformance.sh: no $python here: run scripts/setup.sh --test" >&2; exit 1; }
export RES_OPTIONS='timeout:1 attempts:1'  # the stock client resolves its peer's name

coproc store { exec "$store_main"; }  # it ends with this shell, which holds its stdin
read -r port <&"${store[0]}"
"$python" "$(dirname "$0")/store_conformance.py" 127.0.0.1 "$port"
