# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All checks together: order, verdict, what is ignored, and that every finding is known and documented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._findings import error, info, warning
from ansible_collections.modelops.vllm.plugins.module_utils._preflight import checks
from ansible_collections.modelops.vllm.plugins.module_utils._preflight.checks import Check, judge, judge_layouts
from ansible_collections.modelops.vllm.plugins.module_utils._preflight.question import Question

ROOT = Path(__file__).parents[5]
STATUSES = ("no-nvidia-smi", "no-driver", "no-devices", "driver-mismatch", "lost", "timeout", "error")


def row(result, id_):
    return next(r for r in result["checks"] if r["id"] == id_)


def three(first, second, third):
    """Three checks: one of another module, two of this one."""
    return (
        {"made": first},
        (
            Check("made", ("a",)),
            Check("second", ("b",), lambda question: second),
            Check("third", ("c",), lambda question: third),
        ),
    )


def test_all_findings_at_once_and_one_verdict():
    made, table = three([error("a", "A is wrong.")], [warning("b", "B is odd.", "Mend it.", n=1)], None)
    result = judge(Question(), made, checks=table)
    assert result == {
        "passed": False,
        "checks": [
            {"id": "made", "status": "error", "findings": ["a"]},
            {"id": "second", "status": "warning", "findings": ["b"]},
            {"id": "third", "status": "skipped", "findings": []},
        ],
        "findings": [
            {"id": "a", "severity": "error", "message": "A is wrong.", "numbers": {}, "remedy": "", "ignored": False},
            {
                "id": "b",
                "severity": "warning",
                "message": "B is odd.",
                "numbers": {"n": 1},
                "remedy": "Mend it.",
                "ignored": False,
            },
        ],
        "ignored": [],
    }


def test_an_ignored_error_is_shown_as_ignored():
    made, table = three([error("a", "A is wrong.")], [], [info("c", "C.")])
    result = judge(Question(), made, ["a", "c"], table)
    assert (result["passed"], result["ignored"]) == (True, ["a"])
    assert [r["status"] for r in result["checks"]] == ["ignored", "ok", "info"]
    finding = result["findings"][0]
    assert (finding["severity"], finding["ignored"], finding["message"]) == (
        "info",
        True,
        "Ignored error: A is wrong.",
    )


def test_one_that_is_ignored_does_not_hide_another_of_the_same_check():
    made, table = three([error("a", "A."), error("x", "X.")], [], None)
    result = judge(Question(), made, ["a"], table)
    assert (result["passed"], row(result, "made")["status"]) == (False, "error")


def test_an_id_that_nothing_finds_names_the_known_ones():
    checks.require_known(["port-taken", "vram-held"])
    with pytest.raises(ModelopsError, match=r"'port-takn', which no check finds.*port-taken, port-reserved"):
        checks.require_known(["port-takn", "vram-held"])


def test_a_passed_test_of_peer_access_softens_what_gpu_info_suspected():
    made = {"gpus": [warning("acs-redirect", "Bridges redirect.")]}
    table = (Check("gpus", ("acs-redirect",)), Check("p", ("p2p-works",), lambda question: [info("p2p-works", "OK.")]))
    result = judge(Question(), made, checks=table)
    assert [r["status"] for r in result["checks"]] == ["info", "info"]


def layout(id_, *findings, gpus=8):
    return {
        "id": id_,
        "gpus": gpus,
        "valid": not any(f.severity == "error" for f in findings),
        "findings": [f.as_dict() for f in findings],
    }


INFO = {
    "layouts": [
        layout("tp8", error("fp8-block", "192 is no multiple of 128.")),
        layout("tp8-ep", info("tuned", "None.")),
    ],
    "findings": [info("version-unknown", "The strictest rules.").as_dict()],
}


def test_the_chosen_layout_and_what_holds_for_it_alone():
    findings, entry = judge_layouts(INFO, "tp8-ep")
    assert [f.id for f in findings] == ["version-unknown", "tuned"]
    assert entry["gpus"] == 8


@pytest.mark.parametrize("chosen", ["", "tp8"])
def test_no_valid_layout(chosen):
    findings, entry = judge_layouts({**INFO, "layouts": INFO["layouts"][:1] * 2}, chosen)
    assert [(f.id, f.severity) for f in findings] == [
        ("layout-invalid", "error"),
        ("version-unknown", "info"),
        ("fp8-block", "error"),
    ]
    assert entry == {}


def test_many_invalid_layouts_tell_each_reason_of_the_one_that_comes_closest():
    small, large = error("does-not-fit", "89 GiB."), error("does-not-fit", "554 GiB.")
    layouts = [
        {**layout("tp1", large, error("heads", "64 % 3.")), "weights_gib_per_gpu": 554.0},
        {**layout("tp8", small), "weights_gib_per_gpu": 89.0},
        layout("tp3", error("heads", "64 % 5.")),
    ]
    findings, _entry = judge_layouts({"layouts": layouts}, "")
    assert [f.message for f in findings[1:]] == ["89 GiB.", "64 % 3."]


def test_an_invalid_layout_is_ignored_with_its_reasons():
    result = judge(Question(), {"layout": judge_layouts(INFO, "")[0]}, ["layout-invalid"])
    assert row(result, "layout")["status"] == "ignored"
    assert result["ignored"] == ["fp8-block", "layout-invalid"]


@pytest.mark.parametrize("nothing", [{}, {"skipped": True, "changed": False}])
def test_a_layout_that_was_not_judged_is_said(nothing):
    findings, entry = judge_layouts(nothing, "")
    assert [(f.id, f.severity) for f in findings] == [("layout-not-judged", "info")]
    assert entry == {}


def written_ids():
    """The ids that the sources of the checks write down."""
    utils = ROOT / "plugins" / "module_utils"
    text = "\n".join(p.read_text() for p in [*(utils / "_preflight").glob("*.py"), utils / "_gpu" / "checks.py"])
    others = [utils / "_gpu" / "collect.py", utils / "_serve" / "ports.py", utils / "_serve" / "versions.py"]
    text += "\n".join(path.read_text() for path in others)
    found = set(re.findall(r'(?:error|warning|info|make)\(\s*"([a-z0-9-]+)"', text))
    found |= set(re.findall(r'\("(limit-[a-z]+)", "', text))
    found |= {f"gpu-{s}" for s in STATUSES}
    return found | {f"gpu-{key}" for key in ("name", "compute-cap", "memory-mib")}


def test_every_finding_has_its_place_in_the_list_of_checks():
    assert written_ids() == set(checks.KNOWN_IDS)
    assert len(checks.KNOWN_IDS) == len(set(checks.KNOWN_IDS))


def test_the_guide_has_a_row_for_each_id_and_for_no_other():
    text = (ROOT / "docs/docsite/rst/guide_preflight.rst").read_text(encoding="utf-8")
    rows = re.findall(r"^   \* - ``([a-z0-9-]+)``\n     - (\w+)", text, re.MULTILINE)
    assert sorted(id_ for id_, _severity in rows) == sorted(checks.KNOWN_IDS)
    assert {severity for _id, severity in rows} == {"error", "warning", "info"}
