#!/usr/bin/env bash
# Runs a check of the store by PyTorch's own client: conformance.sh <store_main> <python with torch> <check.py> [option of
# store_main ...]
# The check gets the store's host and port, and the ports of its proxies.
set -euo pipefail
store_main=$1 python=$2 check=$3
shift 3

[[ -x $python ]] || { echo "conformance.sh: no $python here: run scripts/setup.sh --test" >&2; exit 1; }
export RES_OPTIONS='timeout:1 attempts:1'  # the stock client resolves its peer's name

coproc store { exec "$store_main" "$@"; }  # it ends with this shell, which holds its stdin
read -r -a ports <&"${store[0]}"
"$python" "$check" 127.0.0.1 "${ports[@]}"
