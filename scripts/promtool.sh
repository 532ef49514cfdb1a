#!/usr/bin/env bash
# promtool in .venv/bin: it judges the rules and the scrape files of the role monitoring. Out of the distribution's package, which
# is not installed, since most of them bring a Prometheus that would run here.
set -euo pipefail
. "$(dirname "$0")/env.sh"

tool=$CACHE/promtool-$SUITE
if [ ! -x "$tool" ]; then
  step "promtool"
  mkdir -p "$CACHE"
  work=$(mktemp -d "$CACHE/promtool.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  # It has a package of its own since Debian 13, and was part of prometheus before.
  fetch() { (cd "$work" && { apt-get download -q promtool || apt-get download -q prometheus; }) >/dev/null 2>&1; }
  fetch || { apt-get update -q >/dev/null && fetch; } ||
    die "apt-get could download neither of the packages promtool and prometheus, one of which has promtool."
  dpkg-deb --fsys-tarfile "$work"/prom*.deb | tar -xO ./usr/bin/promtool >"$work/promtool"
  chmod 755 "$work/promtool"
  "$work/promtool" --version >/dev/null 2>&1 || die "promtool of $(basename "$work"/prom*.deb) does not run here."
  mv "$work/promtool" "$tool"
fi
ln -sfn "$tool" "$ROOT/.venv/bin/promtool"
