# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Points out of repeats, and the comparison of two results: better, same, worse, or not comparable. Pure."""

from __future__ import annotations

import dataclasses
import math
import statistics
import typing as t
from dataclasses import dataclass, field

from . import origin
from .guards import has_dummy_weights
from .points import order
from .stats import sigma_by_mad

Record = dict[str, t.Any]
Verdict = t.Literal["recorded", "better", "same", "worse", "not_comparable", "invalid", "published"]

# Fewer repeats say nothing about noise: of three against three the ranges can at least be disjoint.
MIN_REPEATS: t.Final = 3
# A band of three standard deviations, estimated by the median absolute deviation of both sides.
BAND_SIGMAS: t.Final = 3.0
# The median absolute deviation of few values is too small; these correct it (Croux and Rousseeuw, "Time-efficient
# algorithms for two highly robust estimators of scale", 1992). Without them three repeats failed one build in forty
# of identical servers at 3 % noise, five none of 1,500.
_FEW_VALUES: t.Final[dict[int, float]] = {2: 1.196, 3: 1.495, 4: 1.363}
# Realised prompt lengths that differ by more are different loads.
SHAPE_TOLERANCE: t.Final = 0.05


@dataclass(frozen=True)
class Compared:
    """A figure that decides: its place in the metrics, its good direction, and the smallest change that counts.

    That is a share of the baseline (``min_effect``), and no less than ``min_step`` in the figure's own unit.
    """

    name: str
    path: tuple[str, ...]
    higher_is_better: bool
    min_effect: float
    min_step: float = 0.0


# Effects that matter: 5 % of throughput, 10 % of a latency. A fast server's first token and each further one are so
# short that a tenth of them is the client's and the kernel's own jitter between two runs of an idle host: no change of
# less than 3 ms and 0.1 ms is told.
COMPARED: t.Final = (
    Compared("output tokens/s", ("output_tokens_per_s",), True, 0.05),
    Compared("TTFT median (ms)", ("ttft_ms", "median"), False, 0.10, min_step=3.0),
    Compared("TPOT median (ms)", ("tpot_ms", "median"), False, 0.10, min_step=0.1),
)

# Measured by the server at its start, and a little different each time.
_AT_START: t.Final = "server.kv_cache_size_tokens"

# Parts of the identity that a comparison is about: they may differ, and are named. All others must be equal.
SUBJECTS: t.Final = (
    "given.args",
    "given.env",
    "given.layout",
    "given.release",
    "given.vllm_args",
    "given.vllm_version",
    "host.process",
    "host.software",
    "server.vllm_version",
    _AT_START,
)

# A subject where it is the version of the server's own client.
_CLIENT_VERSION: t.Final = "client.vllm_version"

# Parts of the identity that older results, and results from elsewhere, do not have: compared when both sides do.
OPTIONAL: t.Final = ("host",)


def look_up(metrics: t.Mapping[str, t.Any] | None, path: t.Iterable[str]) -> float | None:
    """A figure inside the metrics; None when it is not there."""
    value: t.Any = metrics
    for key in path:
        value = value.get(key) if isinstance(value, t.Mapping) else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


@dataclass(frozen=True)
class PointResult:
    """All repeats of one point. ``valid`` holds those that may be believed."""

    point: dict[str, t.Any]
    records: list[Record]

    @property
    def valid(self) -> list[Record]:
        return [r for r in self.records if r["valid"]]

    def values(self, *path: str, part: str = "metrics") -> list[float]:
        """One figure of each valid repeat; ``part`` is the part of the record that has it."""
        found = (look_up(record.get(part), path) for record in self.valid)
        return [value for value in found if value is not None]

    def median(self, *path: str, part: str = "metrics") -> float | None:
        """The median over the valid repeats; None when no repeat has the figure."""
        values = self.values(*path, part=part)
        return statistics.median(values) if values else None

    @property
    def problems(self) -> list[str]:
        """Ids of the errors of all repeats."""
        return sorted({f["id"] for r in self.records for f in r["findings"] if f["severity"] == "error"})


def group(records: t.Iterable[Record]) -> list[PointResult]:
    """The records by point, in ascending order of lengths and concurrency."""
    by_id: dict[str, list[Record]] = {}
    for record in records:
        by_id.setdefault(record["point"]["id"], []).append(record)
    results = [PointResult(rows[0]["point"], rows) for rows in by_id.values()]
    return sorted(results, key=lambda r: order(r.point))


def flatten(value: t.Any, prefix: str = "") -> dict[str, t.Any]:
    """A nested mapping as dotted keys; lists and scalars are values."""
    if not isinstance(value, t.Mapping):
        return {prefix: value}
    flat: dict[str, t.Any] = {}
    for key in sorted(value):
        flat.update(flatten(value[key], f"{prefix}.{key}" if prefix else str(key)))
    return flat


@dataclass(frozen=True)
class Change:
    """One figure of one point on both sides. ``difference`` and ``band`` are shares of the baseline's median."""

    point: str
    figure: str
    baseline: float
    result: float
    difference: float
    band: float
    overlap: bool
    verdict: t.Literal["better", "same", "worse"]

    def as_dict(self) -> dict[str, t.Any]:
        """The form that modules return."""
        return dataclasses.asdict(self)


@dataclass
class Comparison:
    """The verdict over all points, with what it rests on."""

    verdict: Verdict
    changes: list[Change] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    subjects: list[str] = field(default_factory=list)


def judge(records: list[Record], baseline: list[Record] | None) -> Comparison:
    """The verdict on a result, alone or against a baseline.

    A result with an invalid point is ``invalid``, whatever the baseline is. Without a baseline it is ``recorded``, or
    ``published`` when it was not measured here. Published figures are not comparable, on either side.
    """
    sides = {"the result": origin.source(records), "the baseline": origin.source(baseline or [])}
    published = [
        f"{side} has published figures ({source}): not measured or validated here, they are compared with nothing"
        for side, source in sides.items()
        if source
    ]
    if published:
        return Comparison("not_comparable", reasons=published) if baseline is not None else Comparison("published")
    current = group(records)
    broken = [
        f"{r.point['id']}: {', '.join(r.problems) or 'no figures'}" for r in current if len(r.valid) < len(r.records)
    ]
    if broken:
        return Comparison("invalid", reasons=broken)
    if baseline is None:
        return Comparison("recorded")
    mixed = _mixed("the result", records) + _mixed("the baseline", baseline)
    if mixed:
        return Comparison("not_comparable", reasons=mixed)
    comparison = _compare(current, group(baseline), records[0]["identity"], baseline[0]["identity"])
    comparison.reasons += _same_run(records, baseline)
    return comparison


def _same_run(records: t.Iterable[Record], baseline: t.Iterable[Record]) -> list[str]:
    """A run that is on both sides: a result is always the same as itself, which has to be said beside any verdict."""
    both = sorted({str(r.get("run")) for r in records} & {str(r.get("run")) for r in baseline})
    return [f"both sides have measurements of the run {run}, which cannot differ from itself" for run in both]


def _mixed(side: str, records: t.Sequence[Record]) -> list[str]:
    """What differs between the records of one side, of which the first one would else speak for all."""
    first = records[0]["identity"]
    found = {
        key: f"{side} has measurements with different {key}: {flatten(first).get(key)!r} and "
        f"{flatten(record['identity']).get(key)!r}"
        for record in reversed(records)
        for key in _differences(first, record["identity"])
        if key != _AT_START
    }
    return [found[key] for key in sorted(found)]


def _compare(
    current: list[PointResult],
    baseline: list[PointResult],
    identity: t.Mapping[str, t.Any],
    other: t.Mapping[str, t.Any],
) -> Comparison:
    present = [key for key in OPTIONAL if not (identity.get(key) and other.get(key))]
    differing = _differences(_without(identity, present), _without(other, present))
    # The server's own client goes with it through an upgrade; another one is another way to measure.
    upgraded = {_CLIENT_VERSION} if _own_client(identity) and _own_client(other) else set()
    subjects = [text for key, text in differing.items() if _is_subject(key) or key in upgraded]
    reasons = [text for key, text in differing.items() if not (_is_subject(key) or key in upgraded)]
    reasons += _dummies(identity, other)
    before = {r.point["id"]: r for r in baseline}
    for result in current:
        reasons += _unlike(result, before.get(result.point["id"]))
    if reasons:
        return Comparison("not_comparable", reasons=reasons, subjects=subjects)
    pairs = [(result, before[result.point["id"]]) for result in current]
    shared = {figure.name: _shared_noise(figure, pairs) for figure in COMPARED}
    changes = [
        change
        for result, other_result in pairs
        for figure in COMPARED
        if (change := compare_figure(figure, result, other_result, shared[figure.name]))
    ]
    compared = {(change.point, change.figure) for change in changes}
    lost = _lost_points(current, baseline) + [text for pair in pairs for text in _lost_figures(*pair, compared)]
    return Comparison(_overall(changes, lost), changes=changes, reasons=lost, subjects=subjects)


def _overall(changes: t.Iterable[Change], lost: t.Collection[str]) -> Verdict:
    """What is worse is so whatever else is missing; but nobody may call the rest the same."""
    verdicts = {change.verdict for change in changes}
    if "worse" in verdicts:
        return "worse"
    if lost:
        return "not_comparable"
    return "better" if "better" in verdicts else "same"


def _lost_points(current: t.Iterable[PointResult], baseline: t.Iterable[PointResult]) -> list[str]:
    """Loads that the baseline has and the result has not, as when the time did not last for them."""
    measured = {result.point["id"] for result in current}
    return [f"{r.point['id']} is not in the result" for r in baseline if r.valid and r.point["id"] not in measured]


def _lost_figures(result: PointResult, baseline: PointResult, compared: t.Container[tuple[str, str]]) -> list[str]:
    """Figures that a side has and that could not be ``compared``; and a point of which nothing could."""
    name, reasons, found = result.point["id"], [], False
    for figure in COMPARED:
        new, old = len(result.values(*figure.path)), len(baseline.values(*figure.path))
        if (name, figure.name) in compared:
            found = True
        elif min(new, old) >= MIN_REPEATS:
            reasons.append(f"{name} has a median of 0 for {figure.name} in the baseline, of which nothing is a share")
        elif new or old:
            reasons.append(
                f"{name} has {new} values of {figure.name}, in the baseline {old}; a comparison needs {MIN_REPEATS} on "
                "both sides"
            )
    return reasons if found or reasons else [f"{name} has none of the figures that are compared"]


def alike(identity: t.Mapping[str, t.Any], other: t.Mapping[str, t.Any]) -> bool:
    """True when both are of one server with one configuration, started once or several times."""
    return set(_differences(identity, other)) <= {_AT_START}


def _without(identity: t.Mapping[str, t.Any], keys: t.Container[str]) -> dict[str, t.Any]:
    return {key: value for key, value in identity.items() if key not in keys}


def _dummies(identity: t.Mapping[str, t.Any], other: t.Mapping[str, t.Any]) -> list[str]:
    """Weights that were never loaded spread over experts as no model does: such layouts are not compared."""
    new, old = has_dummy_weights(identity.get("given", {})), has_dummy_weights(other.get("given", {}))
    if new != old:
        return [f"load_format is dummy in the {'result' if new else 'baseline'} only"]
    layouts = [side.get("given", {}).get("layout") for side in (identity, other)]
    if new and layouts[0] != layouts[1]:
        return [f"both sides have dummy weights, on which layouts ({layouts[0]}, {layouts[1]}) are not compared"]
    return []


def _is_subject(key: str) -> bool:
    return any(key == subject or key.startswith(f"{subject}.") for subject in SUBJECTS)


def _own_client(identity: t.Mapping[str, t.Any]) -> bool:
    """True when the client is of the same vLLM as the server; builds differ in what follows the plus sign."""
    client, server = (identity.get(part, {}).get("vllm_version") for part in ("client", "server"))
    return bool(client and server) and str(client).partition("+")[0] == str(server).partition("+")[0]


def _differences(identity: t.Mapping[str, t.Any], other: t.Mapping[str, t.Any]) -> dict[str, str]:
    new, old = flatten(identity), flatten(other)
    return {
        key: f"{key} is {new.get(key)!r}, in the baseline {old.get(key)!r}"
        for key in sorted({*new, *old})
        if new.get(key) != old.get(key)
    }


def _unlike(result: PointResult, baseline: PointResult | None) -> list[str]:
    """Why a point cannot be compared; empty when it can."""
    name = result.point["id"]
    if baseline is None:
        return [f"{name} is not in the baseline"]
    if len(baseline.valid) < len(baseline.records):
        return [f"{name} is invalid in the baseline ({', '.join(baseline.problems)})"]
    reasons = [
        f"{name} has {len(side.valid)} repeats {where}, a comparison needs {MIN_REPEATS}"
        for side, where in ((result, "in the result"), (baseline, "in the baseline"))
        if len(side.valid) < MIN_REPEATS
    ]
    new, old = result.median("input_len", "mean"), baseline.median("input_len", "mean")
    if new and old and abs(new - old) > SHAPE_TOLERANCE * old:
        reasons.append(f"{name} has prompts of {new:.1f} tokens, in the baseline of {old:.1f}")
    if _speculates(result) != _speculates(baseline):
        reasons.append(f"{name} was decoded speculatively on one side only")
    return reasons


def _speculates(result: PointResult) -> bool:
    return any((record["server"] or {}).get("acceptance_length") is not None for record in result.records)


def _noise(figure: Compared, result: PointResult, baseline: PointResult) -> float | None:
    """The standard deviation of both sides together, as a share of the baseline's median; None with too few values.

    Valid repeats may lack a figure: latencies of tokens are withheld where the client read late.
    """
    new, old = result.values(*figure.path), baseline.values(*figure.path)
    if min(len(new), len(old)) < MIN_REPEATS or not statistics.median(old):
        return None
    return relative_noise(new, old)


def relative_noise(new: t.Sequence[float], old: t.Sequence[float]) -> float:
    """The standard deviation of both together, as a share of the median of ``old``, which is not 0."""
    return math.hypot(_spread(new), _spread(old)) / abs(statistics.median(old))


def _spread(values: t.Sequence[float]) -> float:
    return _FEW_VALUES.get(len(values), 1.0) * sigma_by_mad(values)


def _shared_noise(figure: Compared, pairs: t.Iterable[tuple[PointResult, PointResult]]) -> float:
    """The noise of a figure over all points (root mean square).

    The deviation of three or five repeats is often far too small by chance, and with nine figures one of them always
    is: alone, it failed one build in twelve at 3 % noise and three points of three repeats. No point is taken for
    quieter than all of them together.
    """
    found = [noise for pair in pairs if (noise := _noise(figure, *pair)) is not None]
    return math.sqrt(statistics.fmean(noise**2 for noise in found)) if found else 0.0


def compare_figure(
    figure: Compared, result: PointResult, baseline: PointResult, shared_noise: float = 0.0
) -> Change | None:
    """One figure of one point: a change counts when it leaves the noise band *and* the ranges do not overlap.

    ``shared_noise`` is the least noise that is taken for true.
    """
    own_noise = _noise(figure, result, baseline)
    if own_noise is None:
        return None
    new, old = result.values(*figure.path), baseline.values(*figure.path)
    middle = statistics.median(old)
    difference = (statistics.median(new) - middle) / middle
    band = max(figure.min_effect, figure.min_step / abs(middle), BAND_SIGMAS * max(own_noise, shared_noise))
    overlap = max(min(new), min(old)) <= min(max(new), max(old))
    verdict: t.Literal["better", "same", "worse"] = "same"
    if abs(difference) > band and not overlap:
        verdict = "better" if (difference > 0) == figure.higher_is_better else "worse"
    return Change(result.point["id"], figure.name, middle, statistics.median(new), difference, band, overlap, verdict)
