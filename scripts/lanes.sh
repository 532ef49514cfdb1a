#!/usr/bin/env bash
# Parts of `make test` side by side. What failed is told once more at the very end, in a few lines each, since a record of a run may
# keep no more than these. usage: lanes.sh LANES PART...
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$ROOT"
lanes=$1
shift
mkdir -p .cache/log
rm -f .cache/log/*.log.failed
if ! printf '%s\n' "$@" | xargs -P "$lanes" -n 1 scripts/lane.sh; then
  cat .cache/log/*.log.failed
  exit 1
fi
