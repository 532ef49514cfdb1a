#!/usr/bin/env bash
# The image of a test node with a podman that has Quadlet: Debian 12's has none, so there it is Debian 13's. In it lies
# the image of the ordinary test node as a registry would serve it: that one has the Python of vLLM's environment.
set -euo pipefail
. "$(dirname "$0")/env.sh"

# The scenario serve_podman knows it by this name.
PODMAN_NODE_IMAGE=localhost/modelops-podman-node:current
distribution=$SUITE components=main
[ "$distribution" != bookworm ] || distribution=trixie
grep -q '^ID=ubuntu' /etc/os-release && components=main,universe
packages=ca-certificates,conmon,crun,dbus,iproute2,libnuma1,netavark,podman,procps,python3,python3-apt,python3-packaging,systemd,systemd-sysv
made=$CACHE/podman-node.made
wanted=$(echo "$distribution $packages $NODE_IMAGE" | cat - "$0" | sha256sum)

[ "$(cat "$made" 2>/dev/null)" = "$wanted" ] && podman image exists "$PODMAN_NODE_IMAGE" 2>/dev/null && exit 0
[ "$(id -u)" = 0 ] || die "the test nodes are systemd containers and need root."
step "node image $PODMAN_NODE_IMAGE with podman of $distribution (about a minute)"
rootfs=$(mktemp -d "$CACHE/rootfs.XXXXXX")
trap 'rm -rf "$rootfs"' EXIT
debootstrap --variant=minbase --components="$components" --include="$packages" "$distribution" "$rootfs" >"$CACHE/debootstrap.log" 2>&1 ||
  { tail -20 "$CACHE/debootstrap.log" >&2; die "debootstrap could not make the node image; its log is $CACHE/debootstrap.log"; }
rm -rf "$rootfs"/var/cache/apt/archives/*.deb
podman save -q --format oci-dir -o "$rootfs/srv/registry" "$NODE_IMAGE" >/dev/null

# A node of plain cgroup version 2, whatever this machine has: podman puts a container below its unit's cgroup there only.
rm "$rootfs/sbin/init"
cat >"$rootfs/sbin/init" <<'INIT'
#!/bin/sh
umount -R -l /sys/fs/cgroup 2>/dev/null
mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec /lib/systemd/systemd
INIT
chmod 0755 "$rootfs/sbin/init"
# Without CAP_SYS_RESOURCE, as some machines run their own containers, nobody can raise a limit or have one of processes.
cat >"$rootfs/etc/containers/containers.conf" <<'CONF'
[containers]
default_ulimits = ["nofile=20000:20000"]
pids_limit = 0
CONF
tar -C "$rootfs" --numeric-owner -c . | podman import -q - "$PODMAN_NODE_IMAGE" >/dev/null
echo "$wanted" >"$made"
