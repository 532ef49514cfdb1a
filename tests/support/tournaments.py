# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tournaments for tests: invented figures in the form that bench_tournament keeps."""

from __future__ import annotations

import typing as t

from ansible_collections.modelops.vllm.plugins.module_utils._bench import tournament
from ansible_collections.modelops.vllm.plugins.module_utils._bench.candidates import Candidate, Excluded, Field

from tests.support.bench_records import record

TP4 = Candidate("tp4", gpus=4)
TP8 = Candidate("tp8-ep", gpus=8)
P2P = Candidate("tp8-ep", env={"NCCL_P2P_DISABLE": "1"}, gpus=8)


def begun(
    *candidates: Candidate,
    objective: str = "throughput",
    excluded: t.Sequence[Excluded] = (),
    points: t.Sequence[t.Mapping[str, t.Any]] = (),
    **rules: t.Any,
) -> tournament.State:
    """A tournament in which nothing was tried."""
    made = tournament.Rules(
        **{"objective": objective, "bounds": {}, "sessions": 3, "leaders": 2, "margin": 0.1, **rules}
    )
    field = Field(list(candidates or (TP4, TP8)), list(excluded))
    identity = {"model": "minimax-m2.5", "vllm": "0.32.0"}
    return tournament.start("0123456789ab", field, made, identity, 1773500000.0, points=points)


def session(run: str, rate: float, concurrency: int = 8, **changes: t.Any) -> list[dict[str, t.Any]]:
    """The records of one start: three repeats of a single stream and of ``concurrency`` at ``rate`` tokens a second."""
    loads = ((1, rate / 10), (concurrency, rate))
    return [record(c, n, rate=r, run=run, **changes) for n in (1, 2, 3) for c, r in loads]


def played(state: tournament.State, rates: t.Mapping[str, t.Sequence[float]]) -> tournament.State:
    """Play as the playbook does, with the rates of each candidate's starts; an empty list does not start."""
    while steps := tournament.steps(state):
        for name, number in steps:
            if rates[name]:
                tournament.add_session(state, name, session(f"{name} {number}", rates[name][number - 1]))
            else:
                tournament.lose(
                    state, name, "deployed", "It died.", {"id": "engine-died", "line": "L.", "remedy": "R."}
                )
    return state
