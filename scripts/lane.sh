#!/usr/bin/env bash
# One part of `make test` beside others: its output goes to a file, and is shown where the part fails. usage: lane.sh PART
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$ROOT"
mkdir -p .cache/log
log=.cache/log/$1.log
began=$SECONDS
if make --no-print-directory -o setup "$1" >"$log" 2>&1; then
  # What pytest counted, for whoever reads a green run.
  step "$1 passed in $((SECONDS - began)) s: $(sed 's/\x1b\[[0-9;]*m//g' "$log" | grep -oE '[0-9]+ passed[^│]*' | tail -1)"
else
  cat "$log"
  step "$1 FAILED after $((SECONDS - began)) s, its output is above and in $log"
  exit 1
fi
