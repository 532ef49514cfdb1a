# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What a rule or a check has to say: one finding each, all of them reported at once."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

Severity = t.Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Finding:
    """One statement about one fact.

    ``id`` is stable and kebab-case (tests and users match it), ``message`` names the value and the rule,
    ``numbers`` holds the figures of the message for machines, ``remedy`` says what to do.
    """

    id: str
    severity: Severity
    message: str
    remedy: str = ""
    numbers: t.Mapping[str, t.Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, t.Any]:
        """The form that modules return."""
        return {
            "id": self.id,
            "severity": self.severity,
            "message": self.message,
            "numbers": dict(self.numbers),
            "remedy": self.remedy,
        }


def error(id_: str, message: str, remedy: str = "", **numbers: t.Any) -> Finding:
    """A fact that makes the wanted thing impossible."""
    return Finding(id_, "error", message, remedy, numbers)


def warning(id_: str, message: str, remedy: str = "", **numbers: t.Any) -> Finding:
    """A fact that costs speed, safety or certainty."""
    return Finding(id_, "warning", message, remedy, numbers)


def info(id_: str, message: str, remedy: str = "", **numbers: t.Any) -> Finding:
    """A fact worth knowing."""
    return Finding(id_, "info", message, remedy, numbers)


def has_errors(findings: t.Iterable[Finding]) -> bool:
    """True when at least one finding makes the wanted thing impossible."""
    return any(f.severity == "error" for f in findings)


def as_dicts(findings: t.Iterable[Finding]) -> list[dict[str, t.Any]]:
    """The findings in the form that modules return, in their order."""
    return [f.as_dict() for f in findings]
