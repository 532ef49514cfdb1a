#!/usr/bin/env bash
# The image of a test node: this machine's own distribution with systemd as process 1, from debootstrap,
# so that no container registry is needed and the system's Python is the same inside and outside.
set -euo pipefail
. "$(dirname "$0")/env.sh"

[ "$(id -u)" = 0 ] || die "the test nodes are systemd containers and need root."
mkdir -p "$CACHE"

# Containers as root on machines of every cgroup mode.
{
  echo "[containers]"
  echo "# Limits that also a machine without CAP_SYS_RESOURCE can give."
  echo 'default_ulimits = ["nofile=20000:20000", "nproc=20000:20000"]'
  echo "# vLLM wants 160 MiB of /dev/shm for each engine; podman gives 64."
  echo 'shm_size = "1g"'
  echo 'log_driver = "k8s-file"'
  if [ "$(stat -f -c %T /sys/fs/cgroup/unified 2>/dev/null)" = cgroup2fs ]; then
    echo "# On a hybrid host systemd in a container gets no notice that a unit's cgroup is empty, and every stop"
    echo "# waits for its timeout; with the version 2 hierarchy it does."
    echo 'volumes = ["/sys/fs/cgroup/unified:/sys/fs/cgroup:rw"]'
  fi
  echo "[engine]"
  echo 'runtime = "runc"'
  echo 'cgroup_manager = "cgroupfs"'
  echo 'events_logger = "file"'
} >"$CONTAINERS_CONF.new"
mv "$CONTAINERS_CONF.new" "$CONTAINERS_CONF"

podman image exists "$NODE_IMAGE" 2>/dev/null && exit 0
[ "$SUITE" != unknown ] || die "/etc/os-release names no VERSION_CODENAME: Debian 12/13 and Ubuntu 22.04/24.04 are supported."
step "node image $NODE_IMAGE (about a minute)"
components=main
grep -q '^ID=ubuntu' /etc/os-release && components=main,universe
rootfs=$(mktemp -d "$CACHE/rootfs.XXXXXX")
trap 'rm -rf "$rootfs"' EXIT
debootstrap --variant=minbase --components="$components" --include="$NODE_PACKAGES" "$SUITE" "$rootfs" >"$CACHE/debootstrap.log" 2>&1 ||
  { tail -20 "$CACHE/debootstrap.log" >&2; die "debootstrap could not make the node image; its log is $CACHE/debootstrap.log"; }
rm -rf "$rootfs"/var/cache/apt/archives/*.deb
# --numeric-owner: names of users differ between machines. The pipe keeps the image from lying on disk twice.
tar -C "$rootfs" --numeric-owner -c . | podman import -q - "$NODE_IMAGE" >/dev/null
