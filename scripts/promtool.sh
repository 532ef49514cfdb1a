#!/usr/bin/env bash
# promtool in .venv/bin: it judges the rules and the scrape files of the role monitoring. Out of Debian's package, which is not
# installed: it would start a Prometheus here.
set -euo pipefail
. "$(dirname "$0")/env.sh"

tool=$CACHE/promtool-$SUITE
if [ ! -x "$tool" ]; then
  step "promtool"
  mkdir -p "$CACHE"
  work=$(mktemp -d "$CACHE/promtool.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  fetch() { (cd "$work" && apt-get download -q prometheus >/dev/null 2>&1); }
  fetch || { apt-get update -q >/dev/null && fetch; } ||
    die "apt-get could not download the package prometheus, which has promtool."
  dpkg-deb --fsys-tarfile "$work"/prometheus_*.deb | tar -xO ./usr/bin/promtool >"$work/promtool"
  chmod 755 "$work/promtool"
  "$work/promtool" --version >/dev/null 2>&1 || die "promtool of the package prometheus does not run here."
  mv "$work/promtool" "$tool"
fi
ln -sfn "$tool" "$ROOT/.venv/bin/promtool"
