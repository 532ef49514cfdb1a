# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Energy and cost of a load. Pure.

The energy is the difference of the counters of the instance's own GPUs, and is believed only when their power, looked
at during the load, says the same. It is that of the boards: host, fans and power supplies are not in it.
"""

from __future__ import annotations

import itertools
import typing as t
from dataclasses import dataclass, field

# Longest time between two looks at the power that the cross-check bridges, and how far both ways may be apart.
MAX_GAP_S: t.Final = 3.0
TOLERANCE: t.Final = 0.05
# The driver's power is the mean of the last second on newer GPUs: where a load begins or ends, it is late by so much.
POWER_LAG_S: t.Final = 1.0
# The counter moves every 0.1 s (seen on an H200): in a shorter load its steps are a large part of the difference.
MIN_WINDOW_S: t.Final = 2.0


@dataclass(frozen=True)
class Gpu:
    """One GPU of the host; the power limit in W, the highest clock of its processors in MHz."""

    uuid: str
    name: str
    power_limit_w: float | None
    sm_clock_limit_mhz: float | None = None


@dataclass(frozen=True)
class Reading:
    """Counters in J and power in W by GPU, at ``at`` seconds of a monotonic clock."""

    at: float
    energy_j: t.Mapping[str, float] = field(default_factory=dict)
    power_w: t.Mapping[str, float] = field(default_factory=dict)


def choose(gpus: t.Sequence[Gpu], wanted: t.Sequence[str], count: int | None) -> tuple[list[str], str]:
    """The UUIDs whose energy is measured, and why none are: those that are ``wanted``, or all of a host that is full.

    GPUs outside of the layout would be in the sum, so an instance that has some of a host's GPUs must name them; and
    the energy of some of its GPUs, over the tokens of all of them, would make it look thrifty.
    """
    known = [gpu.uuid for gpu in gpus]
    if wanted:
        named = list(dict.fromkeys(wanted))
        lacking = sorted(set(named) - set(known))
        if lacking:
            return [], f"there is no GPU {', '.join(lacking)} on the client's host"
        if count is not None and len(named) != count:
            return [], f"gpu_uuids names {len(named)} different GPUs, but the instance occupies {count} (gpus)"
        return named, ""
    if count is not None and count == len(known):
        return known, ""
    return [], f"gpu_uuids is not set, and the instance does not fill the host's {len(known)} GPUs"


def trapezoid(readings: t.Sequence[Reading], uuid: str) -> float:
    """Joules of one GPU by its power between the first and the last reading."""
    return sum((b.at - a.at) * (a.power_w[uuid] + b.power_w[uuid]) / 2 for a, b in itertools.pairwise(readings))


def _edges(readings: t.Sequence[Reading], uuid: str) -> float:
    """Joules that the lag of the power can hide at the begin and the end of a load."""
    power = [reading.power_w[uuid] for reading in readings]
    return POWER_LAG_S * (abs(power[1] - power[0]) + abs(power[-1] - power[-2]))


def measure(readings: t.Sequence[Reading], uuids: t.Sequence[str], figures: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The energy of a load from the readings between its begin and its end.

    Keys: ``valid``, ``reason`` (why there is none), ``gpus``, ``window_s``, ``energy_j``, ``power_energy_j`` (the
    cross-check), ``average_power_w``, ``joules_per_output_token``, ``joules_per_total_token``,
    ``output_tokens_per_s_per_w``. All figures are None when the energy is not believed.
    """
    result: dict[str, t.Any] = dict.fromkeys(
        (
            "energy_j",
            "power_energy_j",
            "average_power_w",
            "joules_per_output_token",
            "joules_per_total_token",
            "output_tokens_per_s_per_w",
        )
    )
    window = readings[-1].at - readings[0].at if readings else 0.0
    result.update(valid=False, gpus=len(uuids), window_s=window, reason=_fault(readings, uuids, window))
    if result["reason"]:
        return result
    first, last = readings[0].energy_j, readings[-1].energy_j
    counted = {uuid: last[uuid] - first[uuid] for uuid in uuids}
    by_power = {uuid: trapezoid(readings, uuid) for uuid in uuids}
    for uuid, joules in counted.items():
        if joules <= 0 or abs(by_power[uuid] - joules) > TOLERANCE * joules + _edges(readings, uuid):
            result["reason"] = (
                f"the counter of {uuid} says {joules:.0f} J and its power {by_power[uuid]:.0f} J, more than "
                f"{TOLERANCE:.0%} apart"
            )
            return result
    watts = sum(counted.values()) / window
    output, total = figures["output_tokens_per_s"], figures["total_tokens_per_s"]
    result.update(
        valid=True,
        energy_j=sum(counted.values()),
        power_energy_j=sum(by_power.values()),
        average_power_w=watts,
        joules_per_output_token=watts / output if output else None,
        joules_per_total_token=watts / total if total else None,
        output_tokens_per_s_per_w=output / watts if output else None,
    )
    return result


def _fault(readings: t.Sequence[Reading], uuids: t.Sequence[str], window: float) -> str:
    """Why these readings give no energy; empty when they do."""
    if window < MIN_WINDOW_S:
        return f"the load took {window:.1f} s, less than {MIN_WINDOW_S:.0f} s"
    for reading in readings:
        lacking = [u for u in uuids if u not in reading.energy_j or u not in reading.power_w]
        if lacking:
            return f"GPU {lacking[0]} has no energy counter or did not answer"
    gap = max(b.at - a.at for a, b in itertools.pairwise(readings))
    if gap > MAX_GAP_S:
        return f"the power was not seen for {gap:.1f} s, longer than {MAX_GAP_S:.0f} s"
    return ""


def cost(
    figures: t.Mapping[str, t.Any], gpus: int | None, price: float | None, currency: str
) -> dict[str, t.Any] | None:
    """What a million tokens cost at ``price`` a GPU and hour; None without a price. The GPUs are those of the instance.

    Hours in which the instance has nothing to do cost the same and are not in it.
    """
    if price is None or not gpus:
        return None
    per_second = price * gpus / 3600
    rates = {"output": figures["output_tokens_per_s"], "total": figures["total_tokens_per_s"]}
    return {
        "currency": currency,
        "gpu_hour_price": price,
        "gpus": gpus,
        **{f"per_million_{name}_tokens": per_second / rate * 1e6 if rate else None for name, rate in rates.items()},
    }
