# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What deploy_minimax.yml left on a node with eight (mocked) RTX PRO 6000."""

from __future__ import annotations

import json

RELEASES = "/var/lib/vllm/instances/main/releases"

# The real command line with the rendered file, up to the point where the engine would start.
PARSE = """
import json, sys
import vllm.entrypoints.cli.serve as serve
from vllm.entrypoints.cli.main import main

NAMES = ("model", "served_model_name", "tensor_parallel_size", "enable_expert_parallel", "data_parallel_size",
         "max_model_len", "tool_call_parser", "reasoning_parser", "enable_auto_tool_choice", "host", "port")
def show(args):
    print("ARGS " + json.dumps({n: getattr(args, n) for n in NAMES}))

serve.ServeSubcommand.cmd = staticmethod(show)
sys.argv = ["vllm", "serve", "--config", sys.argv[1]]
main()
"""


def staged(host) -> str:
    """The directory of the one release."""
    return host.check_output(f"ls -d {RELEASES}/*").strip()


def test_the_real_parser_takes_the_rendered_args_of_tp8_ep(host) -> None:
    out = host.run("cd / && VLLM_LOGGING_LEVEL=ERROR /opt/vllm/bin/python -c %s %s", PARSE, f"{staged(host)}/args.yaml")
    assert out.rc == 0, out.stderr
    args = next(line.removeprefix("ARGS ") for line in out.stdout.splitlines() if line.startswith("ARGS "))
    assert json.loads(args) == {
        "model": "/srv/models/MiniMaxAI/MiniMax-M2.5",
        "served_model_name": ["minimax-m2.5"],
        "tensor_parallel_size": 8,
        "enable_expert_parallel": True,
        "data_parallel_size": 1,
        "max_model_len": 196608,
        "tool_call_parser": "minimax_m2",
        "reasoning_parser": "minimax_m2_append_think",
        "enable_auto_tool_choice": True,
        "host": "127.0.0.1",
        "port": 8000,
    }


def test_the_weights_are_verified(host) -> None:
    manifest = json.loads(host.file("/srv/models/MiniMaxAI/MiniMax-M2.5/.modelops/manifest.json").content_string)
    assert manifest["repo"] == "MiniMaxAI/MiniMax-M2.5"
    assert sum(f.endswith(".safetensors") for f in manifest["files"]) == 8


def test_the_release_is_staged_and_nothing_was_activated(host) -> None:
    release = staged(host)
    unit = host.file(f"{release}/unit.service").content_string
    assert "Restart=always" in unit
    assert "RestartPreventExitStatus=2" in unit
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in unit
    assert "CUDA_VISIBLE_DEVICES=" in unit
    assert host.file(f"{release}/secrets.env").mode == 0o600
    assert host.run("systemctl is-active vllm-main").stdout.strip() == "inactive"
    for path in ("/etc/vllm/main.yaml", "/etc/vllm/main.env", "/etc/systemd/system/vllm-main.service"):
        assert not host.file(path).exists
