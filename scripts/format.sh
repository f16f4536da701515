#!/usr/bin/env bash
# Formats the C++ sources by .clang-format.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
  '') mode=(-i) ;;
  --check) mode=(--dry-run --Werror) ;;
  *) echo "usage: scripts/format.sh [--check]     --check only says what is not formatted" && [[ $1 == -h || $1 == --help ]]; exit ;;
esac
[ -x .venv/bin/clang-format ] || { echo "format.sh: no .venv/bin/clang-format: run scripts/setup.sh --test" >&2; exit 1; }
git ls-files -z --cached --others --exclude-standard '*.cpp' '*.h' | xargs -0 -n 32 .venv/bin/clang-format "${mode[@]}"
