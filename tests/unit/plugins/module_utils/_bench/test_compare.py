# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Better, same, worse, and above all: not comparable."""

from __future__ import annotations

import copy
import random
import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import compare
from ansible_collections.modelops.vllm.plugins.module_utils._bench.compare import flatten, group

from tests.support.bench_records import as_baseline, failed, record, repeats

BASE = [990.0, 1000.0, 1010.0]


def judge(records: list[dict[str, t.Any]], baseline: list[dict[str, t.Any]] | None) -> compare.Comparison:
    """The verdict on a result against a baseline of another run."""
    return compare.judge(records, as_baseline(baseline) if baseline is not None else None)


def with_identity(records: list[dict[str, t.Any]], path: str, value: t.Any) -> list[dict[str, t.Any]]:
    changed = copy.deepcopy(records)
    *parents, last = path.split(".")
    for item in changed:
        node = item["identity"]
        for key in parents:
            node = node[key]
        node[last] = value
    return changed


@pytest.mark.parametrize(
    ("rates", "verdict"),
    [
        ([995.0, 1002.0, 1011.0], "same"),
        ([1190.0, 1200.0, 1210.0], "better"),
        ([890.0, 900.0, 910.0], "worse"),
        # 4 % is inside the smallest effect that counts, although the ranges are apart
        ([950.0, 955.0, 960.0], "same"),
        # a median far away, but one repeat inside the baseline's range
        ([800.0, 810.0, 1000.0], "same"),
        # wide noise of its own widens the band
        ([700.0, 880.0, 980.0], "same"),
    ],
)
def test_a_change_counts_outside_the_noise_only(rates: list[float], verdict: str) -> None:
    assert judge(repeats(rates), repeats(BASE)).verdict == verdict


def test_a_lower_latency_is_better() -> None:
    result = judge(repeats(BASE, ttft_ms=30.0), repeats(BASE, ttft_ms=50.0))
    assert result.verdict == "better"
    by_figure = {c.figure: c for c in result.changes}
    assert by_figure["TTFT median (ms)"].verdict == "better"
    assert by_figure["TTFT median (ms)"].difference == pytest.approx(-0.4)
    assert by_figure["output tokens/s"].verdict == "same"
    assert by_figure["output tokens/s"].band == pytest.approx(3 * 1.495 * 1.4826 * (2 * 10**2) ** 0.5 / 1000)


def test_one_worse_figure_outweighs_a_better_one() -> None:
    assert judge(repeats([1190.0, 1200.0, 1210.0], ttft_ms=90.0), repeats(BASE, ttft_ms=50.0)).verdict == "worse"


def test_without_a_baseline_a_result_is_recorded() -> None:
    assert judge(repeats(BASE), None).verdict == "recorded"


def test_an_invalid_point_is_never_compared() -> None:
    records = [*repeats([1190.0, 1200.0]), failed(repeat=3, rate=9999.0)]
    result = judge(records, repeats(BASE))
    assert (result.verdict, result.changes) == ("invalid", [])
    assert result.reasons == ["c8-i512-o128-n80: requests-failed"]


def test_an_invalid_baseline_is_no_baseline() -> None:
    result = judge(repeats(BASE), [*repeats(BASE[:2]), failed(repeat=3)])
    assert result.verdict == "not_comparable"
    assert "invalid in the baseline" in result.reasons[0]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("model", "other"),
        ("gpus", 4),
        ("client.engine", "rust"),
        ("client.vllm_version", "0.31.0"),
        ("client.place", "remote"),
        ("server.enable_prefix_caching", "False"),
        ("given.model_commit", "def456"),
        ("given.driver", "580.1"),
        ("load.dataset", "sonnets"),
    ],
)
def test_another_identity_is_not_comparable_and_named(path: str, value: t.Any) -> None:
    result = judge(with_identity(repeats(BASE), path, value), repeats(BASE))
    assert result.verdict == "not_comparable"
    assert len(result.reasons) == 1
    assert result.reasons[0].startswith(f"{path} is {value!r}, in the baseline")


@pytest.mark.parametrize(
    ("path", "value"), [("given.layout", "tp4-r2"), ("server.vllm_version", "0.33.0"), ("given.vllm_args", ["x"])]
)
def test_what_a_comparison_is_about_may_differ_and_is_told(path: str, value: t.Any) -> None:
    result = judge(with_identity(repeats(BASE), path, value), repeats(BASE))
    assert result.verdict == "same"
    assert result.subjects[0].startswith(path)


def test_an_upgrade_takes_the_servers_own_client_with_it() -> None:
    newer = with_identity(repeats(BASE), "server.vllm_version", "0.33.0")
    result = judge(with_identity(newer, "client.vllm_version", "0.33.0+cu130"), repeats(BASE))
    assert (result.verdict, result.reasons) == ("same", [])
    assert [text.partition(" ")[0] for text in result.subjects] == ["client.vllm_version", "server.vllm_version"]
    # The client of another vLLM than the server's, on either side, is another way to measure.
    foreign = with_identity(newer, "client.vllm_version", "0.34.0")
    for sides in ((foreign, repeats(BASE)), (repeats(BASE), foreign)):
        assert [text.partition(" ")[0] for text in judge(*sides).reasons] == ["client.vllm_version"]


def withheld(records: list[dict[str, t.Any]], repeats_without: t.Container[int]) -> list[dict[str, t.Any]]:
    """The records, with repeats whose times of the first token are not believed."""
    changed = copy.deepcopy(records)
    for item in changed:
        if item["repeat"] in repeats_without:
            item["metrics"]["ttft_ms"]["median"] = None
    return changed


@pytest.mark.parametrize(("lost_new", "lost_old"), [({1}, set()), ({1, 2, 3}, set()), (set(), {3}), ({1}, {2})])
def test_a_figure_with_too_few_values_is_neither_worse_nor_the_same(lost_new: set[int], lost_old: set[int]) -> None:
    # The first token takes twice as long, but not enough repeats say so on both sides.
    result = judge(withheld(repeats(BASE, ttft_ms=100.0), lost_new), withheld(repeats(BASE), lost_old))
    assert result.verdict == "not_comparable"
    assert result.reasons == [
        f"c8-i512-o128-n80 has {3 - len(lost_new)} values of TTFT median (ms), in the baseline {3 - len(lost_old)}; "
        "a comparison needs 3 on both sides"
    ]
    assert {c.figure: c.verdict for c in result.changes} == {"output tokens/s": "same", "TPOT median (ms)": "same"}


def test_a_figure_that_the_baseline_never_had_is_named() -> None:
    result = judge(repeats(BASE), withheld(repeats(BASE), {1, 2, 3}))
    assert (result.verdict, result.reasons) == (
        "not_comparable",
        [
            "c8-i512-o128-n80 has 3 values of TTFT median (ms), in the baseline 0; a comparison needs 3 on both sides",
        ],
    )
    # Withheld everywhere, it is nobody's loss: the others are compared.
    assert judge(withheld(repeats(BASE), {1, 2, 3}), withheld(repeats(BASE), {1, 2, 3})).verdict == "same"


def test_a_point_without_any_comparison_is_not_the_same() -> None:
    sides = [repeats(BASE, metrics={"requests": 80, "input_len": {"mean": 512.0}}) for _side in range(2)]
    result = judge(*sides)
    assert (result.verdict, result.reasons) == (
        "not_comparable",
        ["c8-i512-o128-n80 has none of the figures that are compared"],
    )
    nothing = judge(repeats(BASE), repeats(BASE, metrics={**record()["metrics"], "output_tokens_per_s": 0.0}))
    assert nothing.reasons == [
        "c8-i512-o128-n80 has a median of 0 for output tokens/s in the baseline, of which nothing is a share"
    ]


def test_a_run_that_is_compared_with_itself_is_said_to_be() -> None:
    result = compare.judge(repeats(BASE), repeats(BASE))
    assert (result.verdict, result.reasons) == (
        "same",
        ["both sides have measurements of the run 20260314T150926Z-8f0a1c, which cannot differ from itself"],
    )


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    ("path", "value", "old"),
    [("model", "other", "minimax-m2.5"), ("given.layout", "tp4", "tp8-ep"), ("server.vllm_version", "1", "0.32.0")],
)
def test_a_side_with_several_identities_is_not_comparable(side: int, path: str, value: str, old: str) -> None:
    mixed = repeats(BASE)
    mixed[1:] = with_identity(mixed[1:], path, value)
    result = judge(*((mixed, repeats(BASE)) if side == 0 else (repeats(BASE), mixed)))
    assert (result.verdict, result.reasons) == (
        "not_comparable",
        [f"the {('result', 'baseline')[side]} has measurements with different {path}: {old!r} and {value!r}"],
    )


def test_a_restart_within_a_resumed_run_is_no_other_identity() -> None:
    resumed = with_identity(repeats(BASE), "server.kv_cache_size_tokens", "100")
    resumed[2:] = with_identity(resumed[2:], "server.kv_cache_size_tokens", "101")
    assert judge(resumed, repeats(BASE)).verdict == "same"


def test_a_loss_is_told_although_a_figure_is_missing() -> None:
    result = judge(withheld(repeats([890.0, 900.0, 910.0]), {1}), repeats(BASE))
    assert (result.verdict, len(result.reasons)) == ("worse", 1)


def test_a_point_that_vanished_is_noticed() -> None:
    baseline = [*repeats(BASE), *repeats([7900.0, 8000.0, 8100.0], concurrency=64)]
    result = judge(repeats(BASE), baseline)
    assert (result.verdict, result.reasons) == ("not_comparable", ["c64-i512-o128-n640 is not in the result"])
    assert judge(repeats([890.0, 900.0, 910.0]), baseline).verdict == "worse"
    # What was never validly measured is not missed.
    assert judge(repeats(BASE), [*repeats(BASE), failed(concurrency=64)]).verdict == "same"


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [(10.0, 12.9, "same"), (10.0, 13.1, "worse"), (16.0, 13.1, "same"), (16.0, 12.9, "better")],
)
def test_less_than_three_milliseconds_of_a_first_token_are_no_change(before: float, after: float, verdict: str) -> None:
    assert judge(repeats(BASE, ttft_ms=after), repeats(BASE, ttft_ms=before)).verdict == verdict


@pytest.mark.parametrize(("after", "verdict"), [(0.39, "same"), (0.41, "worse")])
def test_less_than_a_tenth_of_a_millisecond_of_a_token_is_no_change(after: float, verdict: str) -> None:
    sides = []
    for tpot in (after, 0.3):
        records = repeats([1000.0] * 3)
        for item in records:
            item["metrics"]["tpot_ms"]["median"] = tpot
        sides.append(records)
    assert judge(*sides).verdict == verdict


@pytest.mark.parametrize(
    ("current", "baseline", "words"),
    [
        (repeats(BASE[:2]), repeats(BASE), "has 2 repeats in the result, a comparison needs 3"),
        (repeats(BASE), repeats(BASE[:1]), "has 1 repeats in the baseline"),
        (repeats(BASE, concurrency=16), repeats(BASE), "is not in the baseline"),
        (repeats(BASE, server={"acceptance_length": 2.4}), repeats(BASE), "speculatively on one side only"),
    ],
)
def test_unlike_points_are_not_comparable(
    current: list[dict[str, t.Any]], baseline: list[dict[str, t.Any]], words: str
) -> None:
    result = judge(current, baseline)
    assert result.verdict == "not_comparable"
    assert words in result.reasons[0]


@pytest.mark.case("range-ratio-semantics")
def test_another_realised_prompt_length_is_not_comparable() -> None:
    longer = repeats(BASE)
    for item in longer:
        item["metrics"]["input_len"]["mean"] = 560.0
    assert "prompts of 560.0 tokens" in judge(longer, repeats(BASE)).reasons[0]


def test_repeats_are_grouped_by_point_in_order_of_load() -> None:
    results = group([record(64), record(1), record(8), record(1, repeat=2)])
    assert [(r.point["concurrency"], len(r.records)) for r in results] == [(1, 2), (8, 1), (64, 1)]


def test_medians_are_over_valid_repeats() -> None:
    (result,) = group([*repeats([100.0, 300.0, 200.0]), failed(repeat=4, rate=9999.0)])
    assert result.median("output_tokens_per_s") == 200.0
    assert result.median("ttft_ms", "p99") is None
    assert result.problems == ["requests-failed"]


def test_nested_identities_are_flattened_and_lists_are_values() -> None:
    assert flatten({"b": {"c": [1, 2], "a": None}, "a": 1}) == {"a": 1, "b.a": None, "b.c": [1, 2]}


@pytest.mark.case("moe-random-routing")
def test_layouts_are_not_compared_on_dummy_weights() -> None:
    dummy = with_identity(repeats(BASE), "given.vllm_args", {"load-format": "dummy"})
    assert judge(dummy, dummy).verdict == "same"
    other = judge(with_identity(dummy, "given.layout", "tp4-dp2-ep"), dummy)
    assert other.verdict == "not_comparable"
    assert "layouts (tp4-dp2-ep, tp8-ep) are not compared" in other.reasons[0]
    one_side = judge(repeats(BASE), dummy)
    assert one_side.reasons == ["load_format is dummy in the baseline only"]


def test_the_host_is_compared_when_both_sides_know_it() -> None:
    known = with_identity(repeats(BASE), "host", {"driver": "580.159.04"})
    assert judge(known, repeats(BASE)).verdict == "same"
    result = judge(with_identity(known, "host", {"driver": "570.1"}), known)
    assert result.reasons == ["host.driver is '570.1', in the baseline '580.159.04'"]


@pytest.mark.parametrize(
    ("part", "other", "verdict"),
    [
        ({"process": {"args": ["--seed", "1"]}}, {"process": {"args": []}}, "same"),
        ({"software": {"torch": "2.9.0"}}, {"software": {"torch": "2.10.0"}}, "same"),
        ({"topology": {"GPU0-GPU1": "PIX"}}, {"topology": {"GPU0-GPU1": "SYS"}}, "not_comparable"),
    ],
)
def test_the_software_of_the_server_is_a_subject_and_its_hardware_is_not(
    part: dict[str, t.Any], other: dict[str, t.Any], verdict: str
) -> None:
    sides = [with_identity(repeats(BASE), "host", {"driver": "580", **one}) for one in (part, other)]
    result = judge(*sides)
    assert result.verdict == verdict
    assert (result.subjects or result.reasons)[0].startswith(f"host.{next(iter(part))}")


def test_open_loops_are_points_of_their_own() -> None:
    point = {"id": "q4-i512-o128-n240", "concurrency": None, "rate": 4.0, "input_len": 512, "output_len": 128}
    open_loop = {"point": {**point, "num_prompts": 240}}
    results = group([record(8), record(**open_loop), record(1)])
    assert [r.point["id"] for r in results] == ["c1-i512-o128-n10", "c8-i512-o128-n80", "q4-i512-o128-n240"]
    assert judge(repeats(BASE, **open_loop), repeats(BASE, **open_loop)).verdict == "same"


@pytest.mark.parametrize(("noise", "count"), [(0.01, 5), (0.03, 5), (0.05, 5), (0.03, 3)])
@pytest.mark.parametrize("seed", range(12))
def test_noise_never_fails_a_build_twice_in_ten_identical_runs(noise: float, count: int, seed: int) -> None:
    """Ten runs of one machine against a baseline of it: three points, and three figures each."""
    rng = random.Random(f"{noise} {count} {seed}")

    def run() -> list[dict[str, t.Any]]:
        # Each run has an offset of its own (what changes between starts of a server), and each repeat its noise.
        offset = rng.gauss(1, noise / 2)
        return [
            record(c, repeat, rate=1000 * c * offset * rng.gauss(1, noise), ttft_ms=50 * rng.gauss(1, 2 * noise))
            for c in (1, 8, 64)
            for repeat in range(1, count + 1)
        ]

    baseline = run()
    verdicts = [judge(run(), baseline).verdict for _build in range(10)]
    assert verdicts.count("worse") <= 1


def test_a_point_is_not_quieter_than_all_of_them() -> None:
    # Three repeats that are alike by chance, between two points that are not.
    def points(quiet: float) -> list[dict[str, t.Any]]:
        noisy = [*repeats([950.0, 1000.0, 1050.0]), *repeats([1900.0, 2000.0, 2100.0], concurrency=16)]
        return [*noisy, *repeats([quiet, quiet, quiet], concurrency=1)]

    alone = judge(repeats([900.0] * 3, concurrency=1), repeats([1000.0] * 3, concurrency=1))
    assert alone.verdict == "worse"
    together = judge(points(900.0), points(1000.0))
    assert together.verdict == "same"
    (quiet,) = [c for c in together.changes if (c.point[:3], c.figure) == ("c1-", "output tokens/s")]
    sigma = 1.495 * 1.4826 * 0.05 * 2**0.5
    assert quiet.band == pytest.approx(3 * (2 * sigma**2 / 3) ** 0.5)


def test_a_real_loss_fails_every_build() -> None:
    rng = random.Random(1)

    def run(factor: float) -> list[dict[str, t.Any]]:
        return repeats([1000 * factor * rng.gauss(1, 0.01) for _repeat in range(5)])

    baseline = run(1.0)
    assert [judge(run(0.85), baseline).verdict for _build in range(10)] == ["worse"] * 10
