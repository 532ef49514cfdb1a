# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Who won a tournament, and why each other candidate did not. Pure."""

from __future__ import annotations

import statistics
import typing as t
from dataclasses import dataclass

from .compare import BAND_SIGMAS, relative_noise
from .document import number
from .tournament import OBJECTIVES, Entry, Score, State, candidate_of, rules_of, scores, steps, values

# Less is no difference between two layouts, however quiet the node is.
MIN_EFFECT: t.Final = 0.05
# With fewer starts of one there is no noise to judge a difference by: what is larger than the smallest effect counts.
MIN_STARTS: t.Final = 2

# Messages of roles may have pages.
_LONGEST_WHY: t.Final = 600

_PHASES: t.Final[dict[str, str]] = {
    "checked": "Refused before anything was touched",
    "deployed": "Did not become ready",
    "measured": "Could not be measured",
    "died": "Its server died under load",
}


@dataclass(frozen=True)
class Place:
    """A candidate in the end.

    ``value`` is the median of ``values``, the scores of its sessions, and None when nothing of it counts; ``point`` is
    the load that it was reached at.
    """

    candidate: str
    value: float | None
    values: list[float]
    point: str
    outcome: t.Literal["winner", "lost", "failed", "open"]
    why: str


def standings(state: State) -> list[Place]:
    """All candidates: the winner, the measured ones from best to worst, the failed ones. None wins before the end."""
    judge = _Judge(state)
    places = [judge.place(entry) for entry in state["candidates"]]
    return sorted(places, key=lambda place: (place.outcome != "winner", place.value is None, -(place.value or 0.0)))


def winner(state: State) -> str:
    """The winner's id; empty while steps are left, and when no candidate could be measured."""
    return _Judge(state).winner


def noise_band(values: t.Sequence[float], others: t.Sequence[float]) -> float:
    """The share of ``others``' median within which two candidates are alike."""
    return max(MIN_EFFECT, BAND_SIGMAS * relative_noise(values, others))


class _Judge:
    def __init__(self, state: State) -> None:
        self._entries: dict[str, Entry] = {entry["id"]: entry for entry in state["candidates"]}
        rules = rules_of(state)
        self._unit = OBJECTIVES[rules.objective].unit
        self._scores: dict[str, list[Score]] = {name: scores(state, entry) for name, entry in self._entries.items()}
        self._values = {name: values(found) for name, found in self._scores.items()}
        measured = {name: statistics.median(found) for name, found in self._values.items() if found}
        self._medians: dict[str, float] = {
            name: value for name, value in measured.items() if not self._entries[name]["lost"]
        }
        leaders = [name for name in state["leaders"] if name in self._medians]
        # One whose starts mostly did not count is no match for one that was measured often enough.
        proven = [name for name in leaders if len(self._values[name]) >= MIN_STARTS] or leaders
        self._final: list[str] = sorted(proven, key=lambda name: -self._medians[name])
        self._leaders = leaders
        self._left = {name for name, _number in steps(state)}
        self.winner = self._simplest() if self._final and not self._left else ""

    def _simplest(self) -> str:
        """Of those that cannot be told apart from the best one, the simplest: the others cost more for nothing."""
        alike = [name for name in self._final if self._alike(name, self._final[0])]
        return min(alike, key=self._cost)

    def _cost(self, name: str) -> tuple[float, ...]:
        return (*candidate_of(self._entries[name]).simplicity(), -self._medians[name])

    def _alike(self, name: str, other: str) -> bool:
        """Whether the sessions tell no difference: medians inside the band, or ranges of many starts that overlap."""
        own, others = self._values[name], self._values[other]
        apart = abs(1 - self._medians[name] / self._medians[other])
        if min(len(own), len(others)) < MIN_STARTS:
            return apart <= MIN_EFFECT
        return apart <= noise_band(own, others) or max(min(own), min(others)) <= min(max(own), max(others))

    def place(self, entry: Entry) -> Place:
        name = entry["id"]
        point = next((s.point for s in self._scores[name] if s.value is not None), "")
        outcome, why = self._outcome(entry)
        return Place(name, self._medians.get(name), self._values[name], point, outcome, why)

    def _outcome(self, entry: Entry) -> tuple[t.Literal["winner", "lost", "failed", "open"], str]:
        name = entry["id"]
        if entry["lost"]:
            return "failed", _why_failed(entry["lost"])
        if entry["sessions"] and name not in self._medians and name not in self._left:
            return "failed", f"No point counts: {'; '.join(dict.fromkeys(s.reason for s in self._scores[name]))}."
        if not self.winner:
            return "open", "The tournament is not over."
        if name == self.winner:
            return "winner", self._why_won(name)
        return "lost", self._why_lost(name)

    def _why_won(self, name: str) -> str:
        best = self._final[0]
        if name == best:
            starts = len(self._values[name])
            return f"The best, by the median of {starts} starts." if starts > 1 else "The best."
        own, other = (candidate_of(self._entries[one]).gpus for one in (name, best))
        gain = f"takes {own} GPUs instead of {other}" if own and other and own < other else "is simpler"
        more = self._medians[best] / self._medians[name] - 1
        return f"Not told apart from {best}, which has {more:.1%} more ({self._noise(name, best)}), and {gain}."

    def _noise(self, name: str, other: str) -> str:
        own, others = self._values[name], self._values[other]
        if min(len(own), len(others)) < MIN_STARTS:
            return f"within {MIN_EFFECT:.0%}, without {MIN_STARTS} starts of both to tell noise by"
        return f"noise ±{noise_band(own, others):.1%}"

    def _why_lost(self, name: str) -> str:
        own, best = self._medians[name], self._medians[self.winner]
        figures = f"{number(own)} against {number(best)} {self._unit}"
        starts = len(self._values[name])
        if name in self._leaders and name not in self._final:
            tries = len(self._entries[name]["sessions"])
            return f"{starts} of its {tries} starts counts ({figures}), too few to win against {self.winner}."
        if name not in self._final:
            comparison = f"{abs(own / best - 1):.1%} {'more' if own > best else 'less'} than {self.winner} ({figures})"
            return f"{comparison}. Only the leaders are measured again."
        if self._alike(name, self.winner):
            return f"Not told apart from {self.winner} ({figures}), which is simpler."
        return f"{1 - own / best:.1%} less than {self.winner} ({figures}), {self._outside(name)}."

    def _outside(self, name: str) -> str:
        own, others = self._values[name], self._values[self.winner]
        if min(len(own), len(others)) < MIN_STARTS:
            return f"more than {MIN_EFFECT:.0%}, without {MIN_STARTS} starts of both to tell noise by"
        return f"outside the noise of ±{noise_band(own, others):.1%}"


def _why_failed(lost: t.Mapping[str, t.Any]) -> str:
    cause = lost["cause"]
    if not cause:
        return f"{_PHASES[lost['phase']]}: {_short(lost['message'])}"
    line = f'The log says "{cause["line"]}".' if cause.get("line") else _short(lost["message"])
    words = (f"{_PHASES[lost['phase']]}: {cause['id']}.", line, cause.get("remedy"))
    return " ".join(str(word) for word in words if word)


def _short(message: str) -> str:
    """The beginning of a message in one line; the state has all of it."""
    line = " ".join(message.split())
    return line if len(line) <= _LONGEST_WHY else f"{line[:_LONGEST_WHY]}..."
