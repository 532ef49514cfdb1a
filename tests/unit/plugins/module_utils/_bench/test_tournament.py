# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is next in a tournament, and who wins it for which reason."""

from __future__ import annotations

import math
import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import standings, tournament
from ansible_collections.modelops.vllm.plugins.module_utils._bench.candidates import Candidate
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError

from tests.support.bench_records import failed, record
from tests.support.tournaments import P2P, TP4, TP8, begun, played, session


def outcomes(state: tournament.State) -> list[tuple[str, str]]:
    return [(place.candidate, place.outcome) for place in standings.standings(state)]


def why(state: tournament.State, candidate: str) -> str:
    (place,) = [place for place in standings.standings(state) if place.candidate == candidate]
    return place.why


def test_every_candidate_is_tried_once_then_the_leaders_in_turns() -> None:
    state = begun(TP4, TP8, P2P)
    assert tournament.steps(state) == [("tp4", 1), ("tp8-ep", 1), (P2P.id, 1)]
    tournament.add_session(state, "tp4", session("a", 1000.0))
    assert tournament.steps(state) == [("tp8-ep", 1), (P2P.id, 1)]
    tournament.add_session(state, "tp8-ep", session("b", 950.0))
    tournament.add_session(state, P2P.id, session("c", 700.0))
    assert state["leaders"] == ["tp4", "tp8-ep"]
    assert tournament.steps(state) == [("tp4", 2), ("tp8-ep", 2), ("tp4", 3), ("tp8-ep", 3)]
    assert outcomes(state) == [("tp4", "open"), ("tp8-ep", "open"), (P2P.id, "open")]


def test_the_one_that_was_measured_last_is_not_measured_next() -> None:
    state = begun()
    tournament.add_session(state, "tp8-ep", session("a", 1000.0))
    tournament.add_session(state, "tp4", session("b", 1001.0))
    assert tournament.steps(state) == [("tp8-ep", 2), ("tp4", 2), ("tp8-ep", 3), ("tp4", 3)]


def test_a_tournament_that_was_cut_off_goes_on_where_it_was() -> None:
    state = begun()
    for name, run, rate in (("tp4", "a", 1000.0), ("tp8-ep", "b", 990.0), ("tp4", "c", 1002.0)):
        tournament.add_session(state, name, session(run, rate))
    turns = [("tp8-ep", 2), ("tp4", 3), ("tp8-ep", 3)]
    assert tournament.steps(state) == turns
    # The same run again is the same session.
    tournament.add_session(state, "tp4", session("c", 1002.0))
    assert tournament.steps(state) == turns


def test_a_clear_winner_needs_no_second_round() -> None:
    state = played(begun(), {"tp4": [600.0], "tp8-ep": [1000.0]})
    assert outcomes(state) == [("tp8-ep", "winner"), ("tp4", "lost")]
    assert why(state, "tp8-ep") == "The best."
    assert why(state, "tp4") == (
        "40.0% less than tp8-ep (600 against 1,000 tok/s). Only the leaders are measured again."
    )


def test_a_difference_outside_the_noise_wins() -> None:
    state = played(begun(), {"tp4": [930.0, 920.0, 925.0], "tp8-ep": [1000.0, 1010.0, 1005.0]})
    assert outcomes(state) == [("tp8-ep", "winner"), ("tp4", "lost")]
    assert why(state, "tp8-ep") == "The best, by the median of 3 starts."
    assert why(state, "tp4") == "8.0% less than tp8-ep (925 against 1,005 tok/s), outside the noise of ±5.0%."


@pytest.mark.parametrize(
    "rates",
    [
        # 4 % is inside the smallest effect that counts.
        {"tp4": [960.0, 961.0, 962.0], "tp8-ep": [1000.0, 1001.0, 1002.0]},
        # The starts of one differ by more than the two do.
        {"tp4": [930.0, 935.0, 940.0], "tp8-ep": [1000.0, 900.0, 1100.0]},
    ],
)
def test_what_is_not_told_apart_is_won_by_fewer_gpus(rates: dict[str, list[float]]) -> None:
    state = played(begun(), rates)
    assert outcomes(state) == [("tp4", "winner"), ("tp8-ep", "lost")]
    assert why(state, "tp4").startswith("Not told apart from tp8-ep, which has ")
    assert why(state, "tp4").endswith("and takes 4 GPUs instead of 8.")
    assert why(state, "tp8-ep").startswith("Not told apart from tp4 (")
    assert why(state, "tp8-ep").endswith(", which is simpler.")


def test_a_setting_must_earn_its_place() -> None:
    state = played(begun(TP8, P2P), {"tp8-ep": [1000.0, 1001.0, 1002.0], P2P.id: [1010.0, 1011.0, 1012.0]})
    assert outcomes(state)[0] == ("tp8-ep", "winner")
    assert why(state, "tp8-ep").endswith("(noise ±5.0%), and is simpler.")


def test_more_than_the_leaders_within_the_margin_are_left_behind_and_told_so() -> None:
    third = Candidate("tp2", gpus=2)
    rates = {"tp4": [1000.0, 1000.0, 1000.0], "tp8-ep": [990.0, 990.0, 990.0], "tp2": [980.0]}
    state = played(begun(TP4, TP8, third), rates)
    assert outcomes(state) == [("tp4", "winner"), ("tp8-ep", "lost"), ("tp2", "lost")]
    assert "2.0% less than tp4" in why(state, "tp2")
    assert "Only the leaders are measured again" in why(state, "tp2")


def test_a_candidate_that_does_not_start_is_a_result() -> None:
    state = played(begun(), {"tp4": [1000.0], "tp8-ep": []})
    assert outcomes(state) == [("tp4", "winner"), ("tp8-ep", "failed")]
    assert why(state, "tp8-ep") == 'Did not become ready: engine-died. The log says "L.". R.'


def test_a_leader_that_fails_later_is_out() -> None:
    state = begun()
    for name, rate in (("tp4", 900.0), ("tp8-ep", 980.0)):
        tournament.add_session(state, name, session(name, rate))
    assert state["leaders"] == ["tp8-ep", "tp4"]
    tournament.lose(state, "tp8-ep", "measured", "The server is gone.", None)
    assert tournament.steps(state) == []
    assert outcomes(state) == [("tp4", "winner"), ("tp8-ep", "failed")]
    assert why(state, "tp8-ep") == "Could not be measured: The server is gone."


def test_a_long_message_is_shown_in_one_line_and_kept_whole() -> None:
    state = begun()
    message = "The args are wrong:\n" + "  flag: not of this vLLM\n" * 100
    tournament.lose(state, "tp4", "checked", message, None)
    shown = why(state, "tp4")
    assert shown.startswith("Refused before anything was touched: The args are wrong: flag: not of this vLLM flag: not")
    assert len(shown) < 700
    assert "\n" not in shown
    assert tournament.entry_of(state, "tp4")["lost"]["message"] == message


def test_nobody_wins_when_nobody_starts() -> None:
    state = played(begun(), {"tp4": [], "tp8-ep": []})
    assert outcomes(state) == [("tp4", "failed"), ("tp8-ep", "failed")]
    assert standings.winner(state) == ""


def test_invalid_points_do_not_count() -> None:
    state = begun(TP4, TP8)
    for run in "ac":
        tournament.add_session(state, "tp4", [failed(run=run), failed(run=run, repeat=2)])
    for run in "bd":
        mixed = [record(8, 1, rate=9000.0, run=run), failed(repeat=2, run=run), record(1, rate=60.0, run=run)]
        tournament.add_session(state, "tp8-ep", mixed)
    places = {place.candidate: place for place in standings.standings(state)}
    assert (places["tp8-ep"].value, places["tp8-ep"].point) == (60.0, "c1-i512-o128-n10")
    assert places["tp4"].outcome == "failed"
    assert places["tp4"].why == "No point counts: c8-i512-o128-n80 is invalid (requests-failed)."


def test_a_start_with_an_invalid_point_is_repeated_once_and_then_forgotten() -> None:
    state = begun(TP4, TP8)
    bad = [failed(run="a"), record(1, rate=60.0, run="a")]
    tournament.add_session(state, "tp4", bad)
    assert tournament.steps(state) == [("tp8-ep", 1), ("tp4", 2)]
    assert outcomes(state) == [("tp4", "open"), ("tp8-ep", "open")]
    tournament.add_session(state, "tp8-ep", session("b", 1000.0))
    assert tournament.steps(state) == [("tp4", 2)]
    tournament.add_session(state, "tp4", session("c", 950.0))
    assert state["leaders"] == ["tp8-ep", "tp4"]
    # Its first start does not count, so that it has as many as the other one in the end.
    assert tournament.steps(state) == [("tp8-ep", 2), ("tp4", 3), ("tp8-ep", 3), ("tp4", 4)]
    assert {place.candidate: place.values for place in standings.standings(state)}["tp4"] == [950.0]


def test_starts_of_a_leader_that_do_not_count_are_repeated_but_not_for_ever() -> None:
    state = begun()
    for name, run, rate in (("tp4", "a", 1000.0), ("tp8-ep", "b", 900.0)):
        tournament.add_session(state, name, session(run, rate))
    for number in range(10):
        for name, _session in tournament.steps(state)[:1]:
            records = [failed(run=f"x{number}")] if name == "tp4" else session(f"y{number}", 900.0)
            tournament.add_session(state, name, records)
    assert tournament.steps(state) == []
    assert {entry["id"]: len(entry["sessions"]) for entry in state["candidates"]} == {"tp4": 5, "tp8-ep": 3}
    # One start of five says less than three of three, though it is the faster one.
    assert outcomes(state) == [("tp8-ep", "winner"), ("tp4", "lost")]
    assert why(state, "tp4") == "1 of its 5 starts counts (1,000 against 900 tok/s), too few to win against tp8-ep."


def test_one_start_of_each_tells_no_small_difference_between_leaders() -> None:
    state = played(begun(sessions=1), {"tp4": [955.0], "tp8-ep": [1000.0]})
    assert outcomes(state) == [("tp4", "winner"), ("tp8-ep", "lost")]
    assert why(state, "tp4") == (
        "Not told apart from tp8-ep, which has 4.7% more (within 5%, without 2 starts of both to tell noise by), "
        "and takes 4 GPUs instead of 8."
    )


@pytest.mark.parametrize("slow", [510.0, 930.0])
def test_one_start_of_each_tells_a_large_difference(slow: float) -> None:
    state = played(begun(sessions=1, margin=0.5), {"tp4": [slow], "tp8-ep": [1000.0]})
    assert outcomes(state) == [("tp8-ep", "winner"), ("tp4", "lost")]
    assert why(state, "tp4") == (
        f"{1 - slow / 1000:.1%} less than tp8-ep ({slow:.0f} against 1,000 tok/s), more than 5%, without 2 starts of "
        "both to tell noise by."
    )


@pytest.mark.parametrize(
    ("found", "kind"),
    [("server-gone", None), ("server-restarted", None), ("warm-up-failed", "no-answer")],
)
def test_a_server_that_dies_under_load_loses_whatever_else_it_did(found: str, kind: str | None) -> None:
    state = begun()
    tournament.add_session(state, "tp4", session("a", 1000.0))
    tournament.add_session(state, "tp8-ep", [*session("b", 9000.0), died(found, kind)])
    assert tournament.steps(state) == []
    assert outcomes(state) == [("tp4", "winner"), ("tp8-ep", "failed")]
    assert why(state, "tp8-ep") == (
        f"Its server died under load: {found}. c128-i512-o128-n1280, repeat 1: It is gone. Look at its log."
    )


def test_a_leader_whose_server_dies_later_loses_too() -> None:
    state = begun()
    for name, run, rate in (("tp4", "a", 1000.0), ("tp8-ep", "b", 1001.0)):
        tournament.add_session(state, name, session(run, rate))
    tournament.add_session(state, "tp8-ep", [*session("c", 1001.0), died("server-gone")])
    assert outcomes(state) == [("tp4", "winner"), ("tp8-ep", "failed")]


@pytest.mark.parametrize(("found", "kind"), [("warm-up-failed", "http-error"), ("requests-failed", None)])
def test_a_server_that_refuses_a_load_has_not_died(found: str, kind: str | None) -> None:
    state = begun()
    tournament.add_session(state, "tp4", [*session("a", 1000.0), died(found, kind)])
    assert tournament.entry_of(state, "tp4")["lost"] is None


def died(found: str, kind: str | None = None) -> dict[str, t.Any]:
    """A record of a load that the server did not survive."""
    finding = {"id": found, "severity": "error", "message": "It is gone.", "remedy": "Look at its log."}
    return record(128, valid=False, findings=[{**finding, "numbers": {"kind": kind} if kind else {}}], run="b")


def test_when_both_leaders_are_out_the_next_ones_lead() -> None:
    third = Candidate("tp2", gpus=2)
    state = begun(TP4, TP8, third)
    for name, rate in (("tp4", 1000.0), ("tp8-ep", 990.0), ("tp2", 700.0)):
        tournament.add_session(state, name, session(name, rate))
    assert state["leaders"] == ["tp4", "tp8-ep"]
    for name in ("tp4", "tp8-ep"):
        tournament.lose(state, name, "measured", "The server is gone.", None)
    assert state["leaders"] == ["tp2"]
    assert outcomes(state) == [("tp2", "winner"), ("tp4", "failed"), ("tp8-ep", "failed")]


def test_a_leader_that_is_out_makes_room_for_the_next_one() -> None:
    third = Candidate("tp2", gpus=2)
    state = begun(TP4, TP8, third)
    for name, rate in (("tp4", 1000.0), ("tp8-ep", 990.0), ("tp2", 980.0)):
        tournament.add_session(state, name, session(name, rate))
    tournament.lose(state, "tp4", "deployed", "It died.", None)
    assert state["leaders"] == ["tp8-ep", "tp2"]
    assert tournament.steps(state) == [("tp8-ep", 2), ("tp2", 2), ("tp8-ep", 3), ("tp2", 3)]


POINTS = [{"id": f"c{c}-i512-o128-n{10 * c}", "concurrency": c} for c in (1, 8)]


def test_a_session_that_lacks_a_point_has_no_score_and_is_repeated() -> None:
    state = begun(TP4, points=POINTS)
    only = [one for one in session("a", 1000.0) if one["point"]["concurrency"] == 1]
    tournament.add_session(state, "tp4", only)
    assert tournament.steps(state) == [("tp4", 2)]
    tournament.add_session(state, "tp4", [{**one, "run": "b"} for one in only])
    assert tournament.steps(state) == []
    assert outcomes(state) == [("tp4", "failed")]
    assert why(state, "tp4") == "No point counts: c8-i512-o128-n80 was not measured."


def test_a_point_that_does_not_count_for_the_objective_may_lack() -> None:
    only = [one for one in session("a", 1000.0) if one["point"]["concurrency"] == 1]
    assert tournament.score(only, rules(objective="single_stream"), POINTS).value == 100.0
    assert tournament.score(only, rules(), POINTS).value is None


def test_a_start_beyond_a_bound_is_not_repeated() -> None:
    state = begun(TP4, bounds={"ttft_ms": 10.0})
    tournament.add_session(state, "tp4", session("a", 1000.0))
    assert tournament.steps(state) == []
    assert outcomes(state) == [("tp4", "failed")]


def test_one_that_failed_is_tried_again_when_asked_for() -> None:
    state = played(begun(), {"tp4": [600.0], "tp8-ep": []})
    assert not tournament.try_again(state, "tp4")
    assert tournament.try_again(state, "tp8-ep")
    # Never with the results of its earlier start.
    assert tournament.steps(state) == [("tp8-ep", 2)]
    tournament.add_session(state, "tp8-ep", session("b", 1000.0))
    assert outcomes(state) == [("tp8-ep", "winner"), ("tp4", "lost")]


def rules(**changes: t.Any) -> tournament.Rules:
    return tournament.rules_of(begun(**changes))


def test_a_single_stream_is_judged_at_concurrency_one() -> None:
    found = tournament.score(session("a", 1000.0), rules(objective="single_stream"))
    assert (found.value, found.point) == (100.0, "c1-i512-o128-n10")


def test_throughput_is_that_of_the_best_point_within_the_bounds() -> None:
    records = [record(8, rate=1000.0, ttft_ms=40.0), record(64, rate=3000.0, ttft_ms=900.0)]
    assert tournament.score(records, rules()).value == 3000.0
    assert tournament.score(records, rules(bounds={"ttft_ms": 500.0})).value == 1000.0
    none = tournament.score(records, rules(bounds={"ttft_ms": 10.0}))
    assert none.value is None
    assert none.reason == (
        "c8-i512-o128-n80 has a median ttft_ms of 40.0, above 10.0; "
        "c64-i512-o128-n640 has a median ttft_ms of 900, above 10.0"
    )
    records[0]["metrics"]["ttft_ms"]["median"] = None
    assert (
        "has no ttft_ms to compare with its bound" in tournament.score(records, rules(bounds={"ttft_ms": 10.0})).reason
    )


def test_tokens_a_joule_are_those_of_valid_energy() -> None:
    energy = {"valid": True, "output_tokens_per_s_per_w": 0.4}
    records = [record(1, energy={"valid": False}), record(8, energy=energy)]
    found = tournament.score(records, rules(objective="tokens_per_joule"))
    assert (found.value, found.point) == (0.4, "c8-i512-o128-n80")
    assert "has no such figure" in tournament.score([record(1)], rules(objective="tokens_per_joule")).reason


@pytest.mark.parametrize(
    ("changes", "concurrency", "words"),
    [
        ({"sessions": 0}, [1], "sessions is 0"),
        ({"leaders": 0}, [1], "leaders is 0"),
        ({"margin": -0.1}, [1], "margin is -0.1"),
        ({"margin": math.nan}, [1], "margin is nan"),
        ({"bounds": {"ttft_ms": 0.0}}, [1], "a bound is above 0 ms"),
        ({"objective": "single_stream"}, [8, 64], "judged at concurrency 1, but [8, 64] are measured"),
    ],
)
def test_rules_by_which_nobody_can_win_are_refused(
    changes: dict[str, t.Any], concurrency: list[int], words: str
) -> None:
    with pytest.raises(ModelopsError) as error:
        rules(**changes).check(concurrency)
    assert words in str(error.value)


def test_energy_is_no_objective_without_gpus_to_read_it_from() -> None:
    with pytest.raises(ModelopsError, match="tokens_per_joule needs the energy of the node's GPUs"):
        rules(objective="tokens_per_joule").check([1], energy=False)
    rules(objective="tokens_per_joule").check([1], energy=True)
    rules().check([1], energy=False)


def test_who_does_not_take_part_has_no_outcome() -> None:
    with pytest.raises(ModelopsError, match="'tp2' does not take part in the tournament 0123456789ab"):
        tournament.lose(begun(), "tp2", "deployed", "", None)
