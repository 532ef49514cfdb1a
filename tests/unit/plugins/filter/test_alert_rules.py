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


@pytest.mark.parametrize("duration", ["0s", "5m", "1h30m", "1y2w3d4h5m6s7ms", "0", 0])
def test_durations_are_those_of_prometheus(duration: t.Any) -> None:
    changed, _other = rules({"A": {"for": duration, "keep_firing_for": duration}})
    assert (changed["for"], changed["keep_firing_for"]) == (duration, duration)


def test_values_of_labels_may_be_numbers() -> None:
    assert rules({"B": {"labels": {"tier": 1, "x": True}}})[1]["labels"] == {"tier": 1, "x": True}


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
        ([{"A": False}], "The changes are [{'A': False}]: give a mapping with the names of alerts."),
        ({"A": {"for": 5}}, "for of A is 5: give a duration such as 5m, 1h30m or 0s."),
        ({"A": {"for": True}}, "for of A is True: give a duration"),
        ({"A": {"for": "30m1h"}}, "for of A is '30m1h': give a duration"),
        ({"A": {"for": "1.5h"}}, "for of A is '1.5h': give a duration"),
        ({"A": {"for": ""}}, "for of A is '': give a duration"),
        ({"A": {"for": None}}, "for of A is None: give a duration"),
        ({"A": {"keep_firing_for": "1 h"}}, "keep_firing_for of A is '1 h': give a duration"),
        ({"A": {"expr": None}}, "expr of A is None: give an expression of PromQL as text."),
        ({"A": {"expr": " "}}, "expr of A is ' ': give an expression"),
        ({"A": {"labels": None}}, "labels of A is None: give a mapping of names of labels"),
        ({"A": {"labels": "critical"}}, "labels of A is 'critical': give a mapping"),
        ({"A": {"labels": {"a-b": "x"}}}, "labels of A is {'a-b': 'x'}: give a mapping"),
        ({"A": {"labels": {"__name__": "x"}}}, "labels of A is {'__name__': 'x'}: give a mapping"),
        ({"A": {"labels": {"a": ["x"]}}}, "labels of A is {'a': ['x']}: give a mapping"),
        ({"A": {"annotations": ["x"]}}, "annotations of A is ['x']: give a mapping of names of annotations"),
    ],
)
def test_what_does_not_fit_is_named(changes: t.Any, words: str) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        alert_rules(TEXT, changes)
    assert words in str(caught.value)
