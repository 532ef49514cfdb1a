# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a run waits before it tries again; what it tries is tested in tests/integration."""

from __future__ import annotations

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._hub import fetching
from ansible_collections.modelops.vllm.plugins.module_utils._hub.errors import Failure


@pytest.mark.parametrize(
    ("failures", "asked", "seconds"),
    [(0, 0.0, 0.0), (1, 0.0, 1.0), (3, 0.0, 7.0), (3, 20.0, 20.0), (6, 0.0, 60.0), (5000, 0.0, 60.0), (1, 9e9, 300.0)],
)
def test_the_pause_grows_to_a_bound(failures, asked, seconds, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(fetching.time, "sleep", slept.append)
    fetching._pause(failures, Failure("x", "x", "x", True, asked))
    assert slept == [seconds]
