#!/usr/bin/env bash
# The Debian packages that the demo and the tests need; installs what is missing.
set -euo pipefail
. "$(dirname "$0")/env.sh"

# podman's network back-end has another name before Debian 12 and Ubuntu 24.04.
packages=(ca-certificates debootstrap git iproute2 iptables podman procps python3 python3-venv runc shellcheck)
missing() {
  local p out=""
  for p in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || out="$out $p"
  done
  echo "${out# }"
}

command -v apt-get >/dev/null || die "this system has no apt-get: install these yourself: ${packages[*]}"
need=$(missing "${packages[@]}")
if [ -z "$need" ] && { [ -z "$(missing netavark)" ] || [ -z "$(missing containernetworking-plugins)" ]; }; then
  exit 0
fi
[ "$(id -u)" = 0 ] || die "these packages are missing and only root can install them: $need"
step "system packages: $need and podman's network back-end"
export DEBIAN_FRONTEND=noninteractive
apt-get update -q >/dev/null || die "apt-get update failed: without package lists these cannot be installed: $need"
if apt-cache show netavark >/dev/null 2>&1; then
  network=(netavark aardvark-dns)
else
  network=(containernetworking-plugins)
fi
# shellcheck disable=SC2086 # a list of package names
apt-get install -y -q --no-install-recommends $need "${network[@]}" >/dev/null ||
  die "apt-get could not install: $need ${network[*]}. Its messages are above; make setup goes on from here once they are there."
