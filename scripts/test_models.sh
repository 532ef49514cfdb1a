#!/usr/bin/env bash
# The repositories that the loopback Hub of the demo and of the molecule scenarios serves, in .cache/hub.
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$ROOT"
hub=.cache/hub
maker=tests/support/make_tiny_model.py
profile=playbooks/vars/models/minimax_m2_5.yml

[ -e .cache/hub.made ] && [ ! "$maker" -nt .cache/hub.made ] && [ ! "$profile" -nt .cache/hub.made ] && exit 0
step "tiny checkpoints"
# The folder itself stays: nodes that run have it mounted.
rm -rf "${hub:?}"/* && mkdir -p "$hub"/{modelops/demo-moe,modelops/minimax-m2-tiny,MiniMaxAI/MiniMax-M2.5}
"$SYSTEM_PYTHON" "$maker" "$hub/modelops/demo-moe" --arch qwen3_moe --shards 8 --zero-based
"$SYSTEM_PYTHON" "$maker" "$hub/modelops/minimax-m2-tiny" --arch minimax_m2 --shards 8 --zero-based
# A repository with MiniMax-M2.5's name and config.json and tiny shards: what a node without GPUs can plan and render with.
"$SYSTEM_PYTHON" "$maker" "$hub/MiniMaxAI/MiniMax-M2.5" --arch minimax_m2 --shards 8 --zero-based
.venv/bin/python - "$profile" "$hub/MiniMaxAI/MiniMax-M2.5/config.json" <<'PY'
import json
import sys
from pathlib import Path

import yaml

profile, config = map(Path, sys.argv[1:])
real = yaml.safe_load(profile.read_text())["vllm_model"]["config"]
config.write_text(json.dumps(json.loads(config.read_text()) | real, indent=1))
PY
touch .cache/hub.made
