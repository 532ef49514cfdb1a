# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The test of peer access: its command, its verdicts, its end. NCCL itself needs GPUs and does not run here."""

from __future__ import annotations

import ast
import os
import time

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._findings import info, warning
from ansible_collections.modelops.vllm.plugins.module_utils._preflight import p2p
from ansible_collections.modelops.vllm.plugins.module_utils._preflight.question import Question

GOOD = 'MODELOPS-P2P {"right": true, "gb_per_second": 41.5}'
TOPOLOGY = {
    "GPU0": {"GPU1": "NODE", "GPU2": "SYS", "GPU3": "SYS"},
    "GPU1": {"GPU0": "NODE", "GPU2": "SYS", "GPU3": "SYS"},
}


@pytest.mark.parametrize(
    ("ranks", "timed_out", "verdict"),
    [
        ([(0, GOOD), (0, GOOD.replace("41.5", "40.0"))], None, ("works", "", 40.0)),
        pytest.param([(None, ""), (None, "")], 60, ("broken", "it did not end in 60 s", None), id="A29-timeout"),
        ([(0, GOOD), (None, "")], 60, ("broken", "it did not end in 60 s", None)),
        ([(0, GOOD), (0, GOOD.replace("true", "false"))], None, ("broken", "the sum that came back is wrong", None)),
        (
            [(1, "Traceback\nncclSystemError: System call failed.\nmore"), (None, "")],
            None,
            ("broken", "ncclSystemError: System call failed", None),
        ),
        ([(-9, ""), (None, "")], None, ("broken", "exit status -9", None)),
        ([(0, ""), (0, GOOD)], None, ("broken", "it said nothing", None)),
        (
            [(1, "torch.OutOfMemoryError: CUDA out of memory. Tried"), (None, "")],
            None,
            ("unavailable", "torch.OutOfMemoryError: CUDA out of memory. Tried", None),
        ),
        (
            [(0, 'noise\nMODELOPS-P2P {"unavailable": "No module named torch"}'), (None, "")],
            60,
            ("unavailable", "No module named torch", None),
        ),
    ],
)
def test_verdicts(ranks, timed_out, verdict):
    decided = p2p.decide(ranks, timed_out)
    assert (decided.state, decided.detail, decided.gb_per_second) == verdict


def test_the_command_is_python_with_a_program_that_parses():
    python, flag, program = p2p.command("/opt/vllm/bin/python")
    assert (python, flag) == ("/opt/vllm/bin/python", "-c")
    assert "nccl" in ast.dump(ast.parse(program))


def test_the_environment_is_that_of_the_instance_with_two_gpus():
    env = p2p.environment({"NCCL_P2P_DISABLE": 1, "CUDA_VISIBLE_DEVICES": "7"}, (0, 5), 1, "/tmp/store")
    assert (env["NCCL_P2P_DISABLE"], env["CUDA_VISIBLE_DEVICES"], env["CUDA_DEVICE_ORDER"]) == (
        "1",
        "0,5",
        "PCI_BUS_ID",
    )
    assert (env["RANK"], env["MODELOPS_STORE"], env["PATH"]) == ("1", "/tmp/store", os.environ["PATH"])


@pytest.fixture
def python(tmp_path):
    """A python that does what a shell line says instead of running the program of a rank."""

    def made(line):
        path = tmp_path / "bin" / "python"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    return made


@pytest.mark.slow
def test_two_ranks_that_answer(python, tmp_path):
    verdict = p2p.probe(
        python(f"echo \"$RANK $CUDA_VISIBLE_DEVICES\" >> {tmp_path}/log; echo '{GOOD}'"), (0, 2), {}, 30
    )
    assert (verdict.state, verdict.gb_per_second) == ("works", 41.5)
    assert sorted((tmp_path / "log").read_text().splitlines()) == ["0 0,2", "1 0,2"]


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(") ")[2][0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.slow
@pytest.mark.case("A29")
def test_a29_ranks_that_hang_are_ended_and_peer_access_is_broken(python, tmp_path):
    """topo -p2p says OK, the first all-reduce hangs: the verdict is broken, and nothing of the test is left."""
    line = f"echo $$ >> {tmp_path}/pids; sleep 60 & echo $! >> {tmp_path}/pids; wait"
    verdict = p2p.probe(python(line), (0, 1), {}, 1)
    assert (verdict.state, verdict.detail) == ("broken", "it did not end in 1 s")
    pids = (tmp_path / "pids").read_text().split()
    for _attempt in range(200):  # a process that was killed takes a moment to go
        if not any(alive(pid) for pid in pids):
            break
        time.sleep(0.05)
    assert [pid for pid in pids if alive(pid)] == []


@pytest.mark.slow
def test_a_rank_that_fails_ends_the_wait_for_the_other(python):
    verdict = p2p.probe(
        python('[ "$RANK" = 1 ] && exec sleep 60; echo "NCCL error: unhandled"; exit 1'), (0, 1), {}, 50
    )
    assert (verdict.state, verdict.detail) == ("broken", "NCCL error: unhandled")


def test_no_vllm_yet():
    assert p2p.probe("/no/such/python", (0, 1), {}, 1).state == "unavailable"


def ask(verdict=None, **options):
    base = {"gpu_info": {"gpus": [{"index": 0}, {"index": 1}, {"index": 2}], "topology": TOPOLOGY}}
    return Question(**{**base, **options})


@pytest.mark.parametrize(
    ("state", "id_", "severity"),
    [
        ("works", "p2p-works", "info"),
        ("broken", "p2p-broken", "error"),
        ("unavailable", "p2p-test-unavailable", "warning"),
    ],
)
def test_findings(monkeypatch, state, id_, severity):
    asked = []

    def probe(*arguments):
        asked.append(arguments)
        return p2p.Verdict(state, "because", 41.5)

    monkeypatch.setattr(p2p, "probe", probe)
    (finding,) = p2p.peer_access(ask(p2p_test=True, vllm_bin="/opt/vllm/bin/vllm", p2p_timeout=7))
    assert (finding.id, finding.severity) == (id_, severity)
    assert asked == [("/opt/vllm/bin/python", (0, 2), {}, 7)]
    assert finding.numbers["gpus"] == [0, 2]


def test_the_remedy_of_a_broken_peer_access_names_both_switches(monkeypatch):
    monkeypatch.setattr(p2p, "probe", lambda *arguments: p2p.Verdict("broken", "it did not end in 60 s"))
    (finding,) = p2p.peer_access(ask(p2p_test=True))
    assert "NCCL_P2P_DISABLE=1 and --disable-custom-all-reduce" in finding.remedy


def test_only_the_gpus_of_the_layout_are_tested(monkeypatch):
    asked = []
    monkeypatch.setattr(p2p, "probe", lambda *a: asked.append(a[1]) or p2p.Verdict("works"))
    p2p.peer_access(ask(p2p_test=True, layout={"gpus": 2, "tp": 2}))
    assert asked == [(0, 1)]


def test_no_test_without_being_asked_or_with_one_gpu():
    assert p2p.peer_access(ask()) is None
    assert p2p.peer_access(ask(p2p_test=True, gpu_info={"gpus": [{"index": 0}]})) == []


@pytest.mark.case("A27")
@pytest.mark.parametrize(
    ("env", "args", "tp", "found"),
    [
        ({"NCCL_P2P_DISABLE": "1"}, {}, 2, ["p2p-half-disabled"]),
        ({"NCCL_P2P_DISABLE": 1}, {"disable_custom_all_reduce": True}, 2, []),
        ({"NCCL_P2P_DISABLE": "1"}, {"disable-custom-all-reduce": True}, 2, []),
        ({"NCCL_P2P_DISABLE": "0"}, {}, 2, []),
        ({}, {}, 2, []),
        # Beyond two GPUs without NVLink vLLM has no all-reduce of its own.
        ({"NCCL_P2P_DISABLE": "1"}, {}, 8, []),
    ],
)
def test_a27_peer_access_is_switched_off_for_both_or_not_at_all(env, args, tp, found):
    findings = p2p.peer_access(ask(env=env, args=args, layout={"tp": tp, "gpus": tp}))
    assert [f.id for f in findings or []] == found


def test_a_test_that_passed_clears_the_suspicion():
    suspicion, other = warning("iommu-translated", "It may hang."), warning("gpu-partial", "Cut.")
    works = info("p2p-works", "Works.")
    softened = p2p.soften([suspicion, other, works])
    assert [f.severity for f in softened] == ["info", "warning", "info"]
    assert softened[0].message.startswith("It may hang. But")
    assert p2p.soften([suspicion, other]) == [suspicion, other]
