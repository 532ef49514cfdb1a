# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role monitoring has written for Prometheus and Grafana, and what status.yml says of the same node."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
import testinfra
import yaml

from tests.support.scenario import run_playbook

ROOT = Path(__file__).parents[3]
PLAYBOOKS = ROOT / "playbooks"
CONVERGE = Path(__file__).parents[1] / "converge.yml"
SCRAPE_FILE = "/etc/prometheus/file_sd/vllm-monitoring-node.yml"
KEY = "molecule-key-0815"


@pytest.fixture(autouse=True)
def _json_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results as JSON, which can be read again after the lines of the output were joined."""
    monkeypatch.setenv("ANSIBLE_CALLBACK_RESULT_FORMAT", "json")


def status(*arguments: str, **variables: t.Any) -> tuple[list[list[str]], str]:
    """The rows of the table of status.yml, as words, and all of its output."""
    run = run_playbook(PLAYBOOKS / "status.yml", *arguments, vllm_hosts="all", **variables)
    assert run.returncode == 0, run.stdout
    shown = run.stdout.partition("Status | Show the table")[2].partition("=> ")[2]
    return [line.split() for line in json.JSONDecoder().raw_decode(shown)[0]["msg"]], run.stdout


def test_the_scrape_file_has_both_instances(host: t.Any) -> None:
    labels = {"node": "monitoring-node", "model": "tiny-qwen3", "layout": "tp1", "site": "north 1"}
    assert yaml.safe_load(host.file(SCRAPE_FILE).content_string) == [
        {"targets": ["monitoring-node:8000"], "labels": {**labels, "instance": "main"}},
        {"targets": ["proxy.example.com:8443"], "labels": {**labels, "instance": "second"}},
    ]
    assert host.file(SCRAPE_FILE).mode == 0o644


def test_promtool_finds_the_same_targets(host: t.Any) -> None:
    config = {
        "scrape_configs": [{"job_name": "vllm", "file_sd_configs": [{"files": ["/etc/prometheus/file_sd/*.yml"]}]}]
    }
    config["rule_files"] = ["/etc/prometheus/rules/*.yml"]
    host.check_output("printf %s > /root/prometheus.yml", json.dumps(config))
    checked = host.check_output("promtool check config /root/prometheus.yml")
    assert "SUCCESS: 7 rules found" in checked
    found = json.loads(host.check_output("promtool check service-discovery /root/prometheus.yml vllm"))
    # promtool keeps no order.
    assert sorted(target["labels"]["instance"] for target in found) == ["main", "second"]


def test_changed_alerts_are_changed_and_the_others_are_not(host: t.Any) -> None:
    written = yaml.safe_load(host.file("/etc/prometheus/rules/vllm.yml").content_string)
    ours = yaml.safe_load((ROOT / "roles/monitoring/files/vllm_alerts.yml").read_text(encoding="utf-8"))
    expected = {rule["alert"]: rule for rule in ours["groups"][0]["rules"]}
    del expected["VllmPreemptions"]
    expected["VllmKvCacheFull"]["for"] = "1h"
    assert {rule["alert"]: rule for rule in written["groups"][0]["rules"]} == expected


def test_prometheus_was_reloaded_once(host: t.Any) -> None:
    assert host.file("/run/reloads").content_string == "reloaded\n"


def test_the_dashboard_is_ours(host: t.Any) -> None:
    ours = (ROOT / "roles/monitoring/files/vllm.json").read_text(encoding="utf-8")
    assert host.file("/etc/grafana/dashboards/vllm.json").content_string == ours


def test_what_promtool_refuses_is_not_put_in_place(host: t.Any) -> None:
    before = host.file("/etc/prometheus/rules/vllm.yml").content_string
    broken = {"VllmKvCacheFull": {"expr": "sum by ("}}
    run = run_playbook(CONVERGE, monitoring_alerts=broken)
    assert run.returncode != 0, run.stdout
    assert "failed to validate" in run.stdout
    assert host.file("/etc/prometheus/rules/vllm.yml").content_string == before


def test_check_mode_changes_nothing(host: t.Any) -> None:
    before = host.file(SCRAPE_FILE).sha256sum
    run = run_playbook(CONVERGE, "--check", "--diff", monitoring_labels={"site": "south"})
    assert run.returncode == 0, run.stdout
    assert "changed=1" in run.stdout
    assert "south" in run.stdout
    assert host.file(SCRAPE_FILE).sha256sum == before


def test_the_table_shows_what_serves_and_who_has_nothing_and_no_secret() -> None:
    rows, output = status("-vvvv", status_sample_seconds="1")
    table = {(row[0], row[1]): row for row in rows if len(row) == 12}
    main, second = table["monitoring-node", "main"], table["monitoring-node", "second"]
    assert main[2:6] == ["serving", "tiny-qwen3", "0123456", "tp1"]
    assert second[2] == "serving"
    assert 0 < float(main[7]) <= 100  # 100 tokens in at least a second
    assert main[8:] == ["0", "0", "0%", "87.9"]  # 90000 MiB
    assert second[11] == "0.0"
    assert table["monitoring-prometheus", "-"][2] == "no-instance"
    assert "vllm-main.service" in output
    assert KEY not in output


@pytest.fixture
def broken_node() -> t.Iterator[t.Any]:
    """The node, with a first instance that was killed; everything runs again afterwards."""
    node = testinfra.get_host("podman://monitoring-node")
    node.check_output("systemctl kill -s KILL vllm-main.service")
    yield node
    node.check_output("systemctl reset-failed vllm-main.service")
    node.check_output("systemctl enable --now vllm-main vllm-second")


def test_a_failed_instance_and_one_that_is_stopped_by_the_playbook(host: t.Any, broken_node: t.Any) -> None:
    run = run_playbook(PLAYBOOKS / "stop.yml", vllm_hosts="all", serve_instance="second")
    assert run.returncode == 0, run.stdout
    assert "Stopped: second" in run.stdout
    assert "There is nothing to stop." in run.stdout  # on the other node
    assert broken_node.run("systemctl is-active vllm-second").stdout.strip() == "inactive"
    assert broken_node.run("systemctl is-enabled vllm-second").stdout.strip() == "disabled"

    rows, output = status(status_instances="main,second", status_sample_seconds="")
    assert {row[1]: row[2] for row in rows if row[:1] == ["monitoring-node"]} == {"main": "failed", "second": "stopped"}
    assert "monitoring-node: ERROR The instance main shall run and is failed" in output
    assert "ERROR The instance second" not in output

    # One that an operator has stopped is no target any more, one that fails is.
    run = run_playbook(CONVERGE)
    assert run.returncode == 0, run.stdout
    targets = [group["targets"] for group in yaml.safe_load(host.file(SCRAPE_FILE).content_string)]
    assert targets == [["monitoring-node:8000"]]


def test_stopping_what_is_not_there_names_what_is() -> None:
    run = run_playbook(PLAYBOOKS / "stop.yml", "--check", vllm_hosts="monitoring-node", serve_instance="third")
    assert run.returncode != 0, run.stdout
    assert "There is no instance third on this node; there are: main, second." in run.stdout
