# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What a reader could take from a report and should not. Pure."""

from __future__ import annotations

from .compare import PointResult, Record
from .stats import PERCENTILE_FLOORS


def not_claimed(records: list[Record], results: list[PointResult]) -> list[str]:
    """The sentences, from what the records say and do not say."""
    claims = [_dataset_claim(str(records[0]["identity"]["load"]["dataset"]))]
    repeats = min(len(r.records) for r in results)
    if repeats < 3:
        claims.append(f"Points were measured {repeats} time(s): there is no statement about noise between repeats.")
    else:
        claims.append("Repeats of one session do not show what changes between starts of the server.")
    requests = max((r["metrics"] or {}).get("requests", 0) for r in records)
    hidden = [f"p{p}" for p, floor in PERCENTILE_FLOORS.items() if requests < floor]
    if hidden:
        claims.append(
            f"{', '.join(hidden)} are not given: no point has enough requests for them (p90 from 64, p95 from 130, "
            "p99 from 662); the maximum is."
        )
    if records[0]["identity"]["client"]["place"] == "loopback":
        claims.append(
            "The client ran on the server's host: there is no network in the latencies, and it took CPU time there."
        )
    claims += _energy_claims(records)
    if not any(r.get("cost") for r in records):
        claims.append("Cost was not computed: no price was given.")
    return claims


def _dataset_claim(dataset: str) -> str:
    if dataset == "random tokens":
        return (
            "The prompts are random tokens and every output has the asked length: this is speed under load. It says "
            "nothing about the quality of answers, real text, speculative decoding or tool calls."
        )
    return (
        f"The prompts are {dataset}, and every output has the asked length: this is speed under load. It says nothing "
        "about the quality of answers or tool calls."
    )


def _energy_claims(records: list[Record]) -> list[str]:
    """What the energy figures leave out, or why there are none."""
    tried = [r["energy"] for r in records if r.get("energy")]
    reasons = sorted({energy["reason"] for energy in tried if not energy["valid"]})
    if not tried:
        return ["Energy was not measured."]
    claims = []
    if any(energy["valid"] for energy in tried):
        claims.append("Energy is that of the instance's GPU boards; host, fans and power supplies are not in it.")
    if reasons:
        claims.append(f"Energy was not measured: {'; '.join(reasons)}.")
    return claims
