# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Alerts and dashboard of the role monitoring: they use what vLLM has, and Prometheus and Grafana read them."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
FILES = ROOT / "roles" / "monitoring" / "files"
DASHBOARD = json.loads((FILES / "vllm.json").read_text(encoding="utf-8"))
RULES = yaml.safe_load((FILES / "vllm_alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]
PROMTOOL = shutil.which("promtool", path=str(Path(sys.executable).parent)) or shutil.which("promtool")

# Only there with speculative decoding: vllm/v1/spec_decode/metrics.py of 0.32.0.
SPECULATIVE = {
    "vllm:spec_decode_num_drafts_total",
    "vllm:spec_decode_num_draft_tokens_total",
    "vllm:spec_decode_num_accepted_tokens_total",
}
FUNCTIONS = {
    "sum", "max", "rate", "resets", "changes", "deriv", "min_over_time", "histogram_quantile", "by", "and", "or",
}  # fmt: skip
LABELS = {"node", "instance", "model_name", "le", "source", "finished_reason", "reason", "status"}


def metrics_of(expr: str) -> set[str]:
    """The names in a PromQL expression that are neither functions nor labels."""
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\bby \([^)]*\)", " ", expr)
    return set(re.findall(r"[A-Za-z_][A-Za-z0-9_:]*", bare)) - FUNCTIONS


def labels_of(expr: str) -> set[str]:
    """The labels that an expression selects by or groups by."""
    selected = re.findall(r'([a-z_]+)(?:=~|!~|=|!=)"', expr)
    grouped = [name.strip() for group in re.findall(r"\bby \(([^)]*)\)", expr) for name in group.split(",")]
    return {*selected, *grouped}


def panels() -> list[dict[str, t.Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def exprs() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel["targets"]]


@pytest.fixture(scope="module")
def known() -> set[str]:
    """Every series of a real page of vLLM 0.32.0, and what Prometheus adds."""
    text = (ROOT / "tests" / "unit" / "fixtures" / "vllm_metrics.txt").read_text(encoding="utf-8")
    return {re.split(r"[{ ]", line)[0] for line in text.splitlines() if line and not line.startswith("#")} | {"up"}


def test_the_checks_read_expressions() -> None:
    expr = 'sum by (le, node) (rate(vllm:x_bucket{job="vllm",a=~"$b"}[5m])) / y > 0.5'
    assert metrics_of(expr) == {"vllm:x_bucket", "y"}
    assert labels_of(expr) == {"le", "node", "job", "a"}


def test_alerts_use_metrics_that_vllm_has(known: set[str]) -> None:
    assert {rule["alert"]: metrics_of(rule["expr"]) - known for rule in RULES} == {
        rule["alert"]: set() for rule in RULES
    }


def test_alerts_name_the_job_and_say_what_to_do() -> None:
    for rule in RULES:
        selectors = re.findall(r"\{([^}]*)\}", rule["expr"])
        assert selectors, rule["alert"]
        assert all('job="vllm"' in selector for selector in selectors), rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "description"}


def test_the_guide_names_every_alert() -> None:
    guide = (ROOT / "docs" / "docsite" / "rst" / "guide_operations.rst").read_text(encoding="utf-8")
    assert [rule["alert"] for rule in RULES if f"``{rule['alert']}``" not in guide] == []


def test_the_dashboard_uses_metrics_and_labels_that_there_are(known: set[str]) -> None:
    assert len(exprs()) > 30
    assert {name for expr in exprs() for name in metrics_of(expr)} - known - SPECULATIVE == set()
    assert {name for expr in exprs() for name in labels_of(expr)} - LABELS == {"job"}


def test_every_curve_is_chosen_by_the_variables_and_reads_the_chosen_source() -> None:
    for panel in panels():
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            assert 'node=~"$node"' in target["expr"], panel["title"]
            assert 'instance=~"$instance"' in target["expr"], panel["title"]
    assert [v["name"] for v in DASHBOARD["templating"]["list"]] == ["datasource", "node", "instance", "model"]


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        g = panel["gridPos"]
        own = {(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])}
        assert not own & cells, panel["title"]
        assert g["x"] + g["w"] <= 24
        cells |= own


def test_what_operators_look_for_has_a_panel() -> None:
    titles = " ".join(panel["title"].lower() for panel in panels())
    for word in (
        "generated tokens", "first token", "inter-token", "end-to-end", "running and waiting", "kv cache",
        "prefix cache hit", "preemptions", "by reason", "draft",
    ):  # fmt: skip
        assert word in titles


# The SDK is generated from Grafana's schema: what it builds fits, and what it does not know it drops.


def test_the_dashboard_is_what_its_script_makes() -> None:
    pytest.importorskip("grafana_foundation_sdk", reason="grafana-foundation-sdk needs Python 3.11")
    made = runpy.run_path(str(ROOT / "scripts" / "dashboard.py"))["build"]()
    current = (FILES / "vllm.json").read_text(encoding="utf-8")
    assert made == current, "python scripts/dashboard.py > roles/monitoring/files/vllm.json"


def test_grafanas_schema_knows_every_field() -> None:
    models = pytest.importorskip("grafana_foundation_sdk.models.dashboard", reason="needs Python 3.11")
    encoder = pytest.importorskip("grafana_foundation_sdk.cog.encoder")
    plugins = pytest.importorskip("grafana_foundation_sdk.cog.plugins")
    plugins.register_default_plugins()

    def read(board: dict[str, t.Any]) -> t.Any:
        return json.loads(json.dumps(models.Dashboard.from_json(board), cls=encoder.JSONEncoder))

    assert read(DASHBOARD) == DASHBOARD
    first = {**DASHBOARD["panels"][0], "tittle": "x"}
    assert "tittle" not in read({**DASHBOARD, "panels": [first]})["panels"][0]


# promtool is Prometheus' own parser; make setup has put it beside the Python of the tests.


def promtool(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    assert PROMTOOL, "promtool is missing: scripts/promtool.sh installs it"
    return subprocess.run([PROMTOOL, *arguments], cwd=cwd, text=True, capture_output=True, check=False)


@pytest.mark.slow
def test_each_alert_fires_for_its_fault_and_none_for_a_healthy_server(tmp_path: Path) -> None:
    shutil.copy(FILES / "vllm_alerts.yml", tmp_path)
    shutil.copy(ROOT / "tests" / "unit" / "fixtures" / "vllm_alerts_test.yml", tmp_path)
    done = promtool("test", "rules", "vllm_alerts_test.yml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    cases = yaml.safe_load((tmp_path / "vllm_alerts_test.yml").read_text(encoding="utf-8"))["tests"]
    fired = {row["alertname"] for case in cases for row in case["alert_rule_test"] if row.get("exp_alerts")}
    assert fired == {rule["alert"] for rule in RULES}


@pytest.mark.slow
def test_prometheus_reads_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    # What Grafana fills in before it asks.
    filled = [expr.replace("$__rate_interval", "5m") for expr in exprs()]
    rules = [{"record": f"panel:{i}", "expr": expr} for i, expr in enumerate(filled)]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}), encoding="utf-8")
    done = promtool("check", "rules", "rules.yml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {len(filled)} rules found" in done.stdout
