# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import re
import typing as t

import yaml
from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: alert_rules
short_description: Rules of Prometheus with some of their alerts changed or left out
version_added: 1.1.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - Takes the text of a file of rules and changes its alerts by name. Without changes the text stays as it is.
positional: _input
options:
  _input:
    description: The text of the rules.
    type: str
    required: true
  changes:
    description:
      - By the name of an alert, the fields to replace, C(expr), C(for), C(keep_firing_for), C(labels) and
        C(annotations). Labels and annotations are merged. V(false) leaves the alert out.
      - Durations are those of Prometheus, such as V(5m), V(1h30m) or V(0s).
      - Texts with C({{ $labels.node }}) must be tagged V(!unsafe) in YAML, or Ansible reads them as its own templates.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Install the alerts, without one and with another threshold
  ansible.builtin.copy:
    content: "{{ lookup('ansible.builtin.file', 'vllm_alerts.yml') | modelops.vllm.alert_rules(changes) }}"
    dest: /etc/prometheus/rules/vllm.yml
    mode: "0644"
  vars:
    changes:
      VllmPreemptions: false
      VllmKvCacheFull: {for: 1h}
"""

RETURN = r"""
_value:
  description: The text of the rules.
  type: str
"""

HEADER: t.Final = "# Written by the role modelops.vllm.monitoring: changes made here are lost.\n"
_MERGED: t.Final = ("labels", "annotations")
_LABEL: t.Final = re.compile(r"(?!__name__$)[A-Za-z_][A-Za-z0-9_]*")
# Prometheus' model.ParseDuration: each unit once, the largest first. Zero needs none.
_DURATION: t.Final = re.compile(r"0|(?=.)(\d+y)?(\d+w)?(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?", re.ASCII)


def _is_expression(value: t.Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_duration(value: t.Any) -> bool:
    return isinstance(value, (str, int)) and _DURATION.fullmatch(str(value)) is not None


def _is_labels(value: t.Any) -> bool:
    """Label by label a scalar, which Prometheus takes as text."""
    return isinstance(value, dict) and all(
        _LABEL.fullmatch(name) and not isinstance(one, (dict, list)) for name, one in value.items()
    )


# By the field that may be changed, what its value must be.
_FIELDS: t.Final[t.Mapping[str, tuple[t.Callable[[t.Any], bool], str]]] = {
    "expr": (_is_expression, "an expression of PromQL as text"),
    "for": (_is_duration, "a duration such as 5m, 1h30m or 0s"),
    "keep_firing_for": (_is_duration, "a duration such as 5m, 1h30m or 0s"),
    "labels": (_is_labels, "a mapping of names of labels (letters, digits and _) to texts"),
    "annotations": (_is_labels, "a mapping of names of annotations (letters, digits and _) to texts"),
}


def alert_rules(text: str, changes: t.Mapping[str, t.Any] | None = None) -> str:
    """The text with the changes; raises AnsibleFilterError for those that do not fit the rules."""
    if not changes:
        return str(text)
    # Through JSON: Ansible's own kinds of strings and dictionaries are none that a YAML dumper knows.
    wanted: dict[str, t.Any] = json.loads(json.dumps(changes, default=str))
    if not isinstance(wanted, dict):
        raise AnsibleFilterError(f"The changes are {wanted!r}: give a mapping with the names of alerts.")
    document = yaml.safe_load(str(text))
    known = [rule["alert"] for group in document["groups"] for rule in group["rules"]]
    for name, change in wanted.items():
        if name not in known:
            raise AnsibleFilterError(f"There is no alert {name!r}; there are: {', '.join(known)}.")
        _check(name, change)
    for group in document["groups"]:
        left = [rule for rule in group["rules"] if wanted.get(rule["alert"]) is not False]
        group["rules"] = [_changed(rule, wanted.get(rule["alert"], {})) for rule in left]
    return HEADER + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)


def _check(name: str, change: t.Any) -> None:
    """Raises AnsibleFilterError for a change that Prometheus would not read: promtool need not be there to do so."""
    if change is False:
        return
    if not isinstance(change, dict):
        raise AnsibleFilterError(f"The change of {name} is {change!r}: give the fields to replace, or false.")
    for field, value in change.items():
        if field not in _FIELDS:
            raise AnsibleFilterError(f"{name} has no field {field!r}; there are: {', '.join(_FIELDS)}.")
        fits, what = _FIELDS[field]
        if not fits(value):
            raise AnsibleFilterError(f"{field} of {name} is {value!r}: give {what}.")


def _changed(rule: dict[str, t.Any], change: dict[str, t.Any]) -> dict[str, t.Any]:
    merged: dict[str, t.Any] = {key: {**rule.get(key, {}), **change[key]} for key in _MERGED if key in change}
    return {**rule, **change, **merged}


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., str]]:
        return {"alert_rules": alert_rules}
