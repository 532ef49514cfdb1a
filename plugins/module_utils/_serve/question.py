# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""How an instance is asked whether it is ready, kept with its release so that going back asks the same."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, fields

from .probe import Answer, ask, requester


@dataclass(frozen=True)
class Question:
    """The options of vllm_ready that say what is asked."""

    url: str
    model: str = ""
    api_key: str | None = None
    smoke: bool = True
    completion_timeout: float = 300.0

    @classmethod
    def from_dict(cls, values: t.Mapping[str, t.Any]) -> Question:
        """From a release.json, with the API key added; keys of a newer version are ignored."""
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in values.items() if key in known})

    def ask(self, left: float) -> Answer:
        """Ask once; ``left`` seconds are left of the wait."""
        request = requester(self.url, self.api_key)
        return ask(request, self.model, want_sense=self.smoke, seconds=min(left, self.completion_timeout))
