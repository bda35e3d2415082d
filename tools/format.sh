#!/bin/sh
# Formats the C++ files of the tree with clang-format; with --check only says
# which ones are not formatted, and fails when there are any.
set -eu
cd "$(dirname "$0")/.."
case "${1:-}" in
  "") mode=-i ;;
  --check) mode="--dry-run --Werror" ;;
  *) echo "usage: tools/format.sh [--check]" >&2; exit 2 ;;
esac
# Tracked files and new ones that git does not ignore.
git ls-files --cached --others --exclude-standard -- \
    '*.h' '*.cc' '*.cu' '*.cuh' |
  xargs -r clang-format --style=file $mode
