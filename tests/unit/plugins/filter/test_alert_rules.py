# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Alerts that a user changes."""

from __future__ import annotations

import typing as t

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.modelops.vllm.plugins.filter.alert_rules import FilterModule, alert_rules

TEXT = """\
# A comment.
groups:
  - name: vllm
    rules:
      - alert: A
        expr: up == 0
        for: 5m
        labels: {severity: critical}
        annotations: {summary: "{{ $labels.node }}", description: d}
      - {alert: B, expr: x > 1}
"""


def rules(changes: t.Any) -> list[dict[str, t.Any]]:
    return yaml.safe_load(alert_rules(TEXT, changes))["groups"][0]["rules"]


def test_the_filter_has_its_name() -> None:
    assert FilterModule().filters() == {"alert_rules": alert_rules}


@pytest.mark.parametrize("changes", [None, {}])
def test_without_changes_the_text_stays(changes: t.Any) -> None:
    assert alert_rules(TEXT, changes) == TEXT


def test_fields_are_replaced_and_labels_and_annotations_merged() -> None:
    changed, other = rules({"A": {"for": "1h", "labels": {"team": "ml"}, "annotations": {"description": "e"}}})
    assert changed == {
        "alert": "A",
        "expr": "up == 0",
        "for": "1h",
        "labels": {"severity": "critical", "team": "ml"},
        "annotations": {"summary": "{{ $labels.node }}", "description": "e"},
    }
    assert other == {"alert": "B", "expr": "x > 1"}


def test_an_alert_without_labels_gets_some() -> None:
    assert rules({"B": {"labels": {"severity": "info"}}})[1]["labels"] == {"severity": "info"}


def test_false_leaves_an_alert_out() -> None:
    assert [rule["alert"] for rule in rules({"A": False})] == ["B"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"C": False}, "There is no alert 'C'; there are: A, B."),
        ({"A": {"severity": "x"}}, "A has no field 'severity'; there are: expr, for,"),
        ({"A": None}, "The change of A is None: give the fields to replace, or false."),
        ({"A": "1h"}, "The change of A is '1h'"),
    ],
)
def test_what_does_not_exist_is_named(changes: t.Any, words: str) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        alert_rules(TEXT, changes)
    assert words in str(caught.value)
