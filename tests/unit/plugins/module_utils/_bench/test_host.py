# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host that is measured, read from a /proc that the test makes."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import host
from ansible_collections.modelops.vllm.plugins.module_utils._bench.energy import Gpu

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def proc(root: Path, config: Path, sockets: t.Mapping[int, str]) -> str:
    """Processes 100 (a shell) and those of ``sockets``, which listen on port 8000 (1F40), over IPv4 and IPv6."""
    (root / "net").mkdir()
    rows = "   0: 0100007F:1F40 00000000:0000 01 0:0 00:0 0 0 0 111 1\n"
    rows += "   1: 0100007F:1F40 00000000:0000 0A 0:0 00:0 0 0 0 222 1\n"
    (root / "net" / "tcp").write_text(HEADER + rows)
    (root / "net" / "tcp6").write_text(HEADER + "   0: 00:1F40 00:0000 0A 0:0 00:0 0 0 0 333 1\n")
    for pid, target in {100: "pipe:[9]", **sockets}.items():
        (root / str(pid) / "fd").mkdir(parents=True)
        os.symlink(target, root / str(pid) / "fd" / "3")
        arguments = ["/opt/vllm/bin/vllm", "serve", "/models/m", "--config", str(config), "--api-key", "topsecret"]
        (root / str(pid) / "cmdline").write_bytes("\0".join([*arguments, ""]).encode())
        environment = ["PATH=/bin", "VLLM_API_KEY=key-1", "NCCL_P2P_LEVEL=SYS", "CUDA_VISIBLE_DEVICES=0,1", "HOME=/x"]
        (root / str(pid) / "environ").write_bytes("\0".join([*environment, ""]).encode())
    return str(root)


@pytest.mark.parametrize("socket", ["socket:[222]", "socket:[333]"])
def test_the_process_that_listens_is_read(tmp_path: Path, socket: str) -> None:
    config = tmp_path / "args.yaml"
    config.write_text("# by hand\ntensor-parallel-size: 2\n\nmax-num-seqs: 8\n")
    root = tmp_path / "proc"
    root.mkdir()
    found = host.server_process(8000, proc(root, config, {300: socket, 200: socket}))
    assert found["args"][:3] == ["/opt/vllm/bin/vllm", "serve", "/models/m"]
    assert found["env"] == {"CUDA_VISIBLE_DEVICES": "0,1", "NCCL_P2P_LEVEL": "SYS", "VLLM_API_KEY": "key-1"}
    assert found["config"] == ["tensor-parallel-size: 2", "max-num-seqs: 8"]


def test_a_connection_is_no_server(tmp_path: Path) -> None:
    root = tmp_path / "proc"
    root.mkdir()
    place = proc(root, tmp_path / "none.yaml", {200: "socket:[111]"})
    assert host.server_process(8000, place) == {}
    assert host.server_process(8001, place) == {}


def test_no_secret_of_the_process_is_in_the_description(monkeypatch: pytest.MonkeyPatch) -> None:
    process = {"args": ["vllm", "--api-key", "topsecret"], "env": {"VLLM_API_KEY": "key-1", "NCCL_DEBUG": "INFO key-2"}}
    monkeypatch.setattr(host, "server_process", lambda _port: process)
    known = host.describe([], "", {"torch": "2.9.0+cu129", "nccl": None}, 8000, ["key-2"])
    assert known["process"] == {
        "args": ["vllm", "--api-key", "***"],
        "env": {"VLLM_API_KEY": "***", "NCCL_DEBUG": "INFO ***"},
    }
    assert known["software"] == {"torch": "2.9.0+cu129"}
    assert not {"driver", "topology"} & set(known)


def test_gpus_are_described_by_what_may_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "server_process", lambda _port: {})
    gpus = [Gpu("a", "RTX PRO 6000", 600.0, 2430.0), Gpu("b", "RTX PRO 6000", 450.0, 2430.0)]
    known = host.describe(gpus, "580.1", {}, 8000, [])
    assert known["gpu_names"] == ["RTX PRO 6000"]
    assert known["power_limits_w"] == [450.0, 600.0]
    assert known["sm_clock_limits_mhz"] == [2430.0]
    assert known["kernel"] == os.uname().release
    assert "process" not in known


def test_each_link_is_named_once() -> None:
    matrix = {
        "GPU0": {"GPU1": "PIX", "GPU10": "SYS", "NIC0": "NODE"},
        "GPU1": {"GPU0": "PIX", "GPU10": "NODE", "NIC0": "NODE"},
        "GPU10": {"GPU0": "SYS", "GPU1": "NODE", "NIC0": "PIX"},
        "NIC0": {"GPU0": "NODE"},
    }
    assert host.pairs(matrix) == {"GPU0-GPU1": "PIX", "GPU0-GPU10": "SYS", "GPU1-GPU10": "NODE"}
