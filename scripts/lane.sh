#!/usr/bin/env bash
# One part of `make test` beside others: its output goes to a file, and is shown where the part fails. usage: lane.sh PART
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$ROOT"
mkdir -p .cache/log
log=.cache/log/$1.log
# molecule folds its output to 80 columns where there is no terminal.
export COLUMNS=160
# Without colours and molecule's frame.
plain() { sed -E 's/\x1b\[[0-9;]*m//g; s/^ +│ ?//' "$log"; }
began=$SECONDS
if make --no-print-directory -o setup "$1" >"$log" 2>&1; then
  # What pytest counted, for whoever reads a green run.
  step "$1 passed in $((SECONDS - began)) s: $(plain | grep -oE '[0-9]+ passed.*' | tail -1)"
else
  cat "$log"
  step "$1 FAILED after $((SECONDS - began)) s, its output is above and in $log" | tee "$log.failed"
  # Which tests failed and how, and what Ansible or a script could not do.
  for what in '^(FAILED|ERROR) tests/' '^(E  |fatal: |failed: |\[ERROR\]|modelops\.vllm: )'; do
    plain | cut -c 1-240 | grep -m 12 -E "$what" >>"$log.failed" || true
  done
  exit 1
fi
