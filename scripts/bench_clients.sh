#!/usr/bin/env bash
# The other clients that `make bench` sets beside ours: aiperf, and the Rust client that is in vLLM's CUDA wheel only.
# Some 1.5 GB, so not a part of `make setup`.
set -euo pipefail
. "$(dirname "$0")/env.sh"

if [ ! -x "$AIPERF" ]; then
  step "aiperf $AIPERF_VERSION"
  "$SYSTEM_PYTHON" -m venv "${AIPERF%/bin/aiperf}"
  "${AIPERF%/aiperf}/pip" install -q "aiperf==$AIPERF_VERSION"
fi
if [ ! -x "$VLLM_RS" ]; then
  step "the Rust client of vLLM $VLLM_CPU_VERSION"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  "$ROOT/.venv/bin/pip" download -q --no-deps --dest "$work" "vllm==$VLLM_CPU_VERSION"
  "$SYSTEM_PYTHON" -m zipfile -e "$work"/vllm-*.whl "$work/wheel"
  install -D -m 755 "$work/wheel/vllm/vllm-rs" "$VLLM_RS"
fi
