# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a client may open."""

from __future__ import annotations

import resource

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import process
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError


@pytest.mark.case("ulimit-silent-fail")
def test_the_file_limit_is_raised_or_the_point_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # ulimit-silent-fail
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (256, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _which, limits: calls.append(limits))
    process.raise_file_limit(512)
    assert calls == [(2304, 4096)]
    process.raise_file_limit(2000)
    assert calls[-1] == (8256, 8256)

    def refuse(_which: int, _limits: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    with pytest.raises(ModelopsError, match="2000 streams need 8256 open files, but the limit is 256"):
        process.raise_file_limit(2000)


def test_a_limit_that_is_high_enough_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (20000, 20000))
    monkeypatch.delattr(resource, "setrlimit")
    process.raise_file_limit(128)
