# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prompts of the datasets: of the asked length, and never the same twice."""

from __future__ import annotations

import json
import random
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import dataset
from ansible_collections.modelops.vllm.plugins.module_utils._bench.points import Point, schedule
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError

TEXT = Point(4, 100, 20, 16)
FILE = Point(4, None, 20, 16)


def jsonl(path: Path, prompts: t.Iterable[str]) -> str:
    path.write_text("".join(json.dumps({"prompt": p}) + "\n" for p in prompts))
    return str(path)


@pytest.mark.case("worker-same-seed")
def test_random_tokens_are_ids_of_the_servers_vocabulary() -> None:
    plan = schedule([TEXT], 2, 7)
    lengths = dataset.Lengths(4.0, vocabulary=tuple(range(1000, 1040)))
    loads = [dataset.make_prompts(dataset.Dataset(), plan, m, 7, lengths) for m in plan]
    prompts = [tuple(p) for part in loads for p in part]
    assert len(prompts) == 2 * 16
    assert {len(p) for p in prompts} == {100}
    assert len(set(prompts)) == len(prompts)
    assert {token for p in prompts for token in p} == set(range(1000, 1040))
    assert dataset.Dataset().label == "random tokens"


def test_without_a_vocabulary_random_prompts_are_letters_of_the_asked_length() -> None:
    (measurement,) = schedule([TEXT], 1, 7)
    few = dataset.Lengths(4.0, template_tokens=10, vocabulary=(1, 2, 3))
    prompts = dataset.make_prompts(dataset.Dataset(), [measurement], measurement, 7, few)
    assert {(type(p).__name__, len(p)) for p in prompts} == {("str", 4 * (100 - 10))}


def test_a_template_longer_than_the_prompt_leaves_one_character() -> None:
    assert dataset.Lengths(4.0, template_tokens=30).characters(8) == 1


@pytest.mark.case("worker-same-seed", "warmup-uses-first-prompt")
def test_verses_have_the_asked_length_and_begin_differently_everywhere() -> None:
    plan = schedule([TEXT], 2, 7)
    data = dataset.Dataset("text")
    loads = [dataset.make_prompts(data, plan, m, 7, dataset.Lengths(4.0)) for m in plan]
    warm = [dataset.warmup_prompts(data, TEXT, m.seed, dataset.Lengths(4.0)) for m in plan]
    prompts = [p for part in (*loads, *warm) for p in part or ()]
    assert len(prompts) == 2 * 16 + 2 * 4
    assert {len(p) for p in prompts} == {400}
    assert len({p[:28] for p in prompts}) == len(prompts)
    assert "\n" in prompts[0]
    assert loads[0] == dataset.make_prompts(data, plan, plan[0], 7, dataset.Lengths(4.0))


def test_the_warm_up_of_a_file_is_verses_that_fit_into_the_context() -> None:
    data = dataset.Dataset("file", ("x" * 1000, "y" * 3000))
    lengths = dataset.Lengths(2.0, template_tokens=10)
    prompts = dataset.warmup_prompts(data, FILE, 7, lengths)
    assert {len(p) for p in prompts} == {2000}
    assert all(p.startswith("Letter ") and "\n" in p for p in prompts)
    # 0.9 of the room are 450 tokens, of which the template has 10.
    assert {len(p) for p in dataset.warmup_prompts(data, FILE, 7, lengths, 500)} == {2 * 440}
    assert {len(p) for p in dataset.warmup_prompts(data, FILE, 7, lengths, 5000)} == {2000}
    assert {len(p) for p in dataset.warmup_prompts(data, FILE, 7, lengths, 0)} == {1}


def test_a_long_prompt_goes_through_the_verses_several_times() -> None:
    rng = random.Random(1)
    assert len(dataset.verses(rng, 20000)) == 20000


@pytest.mark.case("worker-same-seed")
def test_measurements_share_no_prompt_of_a_file(tmp_path: Path) -> None:
    data = dataset.read_file(jsonl(tmp_path / "p.jsonl", [f"prompt {i}" for i in range(40)]))
    plan = schedule([FILE], 2, 7)
    dataset.check_size(data, plan)
    first, second = (dataset.make_prompts(data, plan, m, 7, dataset.Lengths(1.0)) for m in plan)
    assert first is not None
    assert second is not None
    assert (len(first), len(second)) == (16, 16)
    assert not set(first) & set(second)
    assert first != sorted(first)


def test_a_file_that_is_too_short_is_refused_with_the_numbers(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "p.jsonl", ["same"] * 40 + [f"prompt {i}" for i in range(30)])
    data = dataset.read_file(path)
    assert len(data.prompts) == 31
    with pytest.raises(ModelopsError, match="need 32 prompts, but the dataset has 31 different ones"):
        dataset.check_size(data, schedule([FILE], 2, 7))


def test_the_label_changes_with_the_text_of_a_file(tmp_path: Path) -> None:
    one = dataset.read_file(jsonl(tmp_path / "a.jsonl", ["a", "b"])).label
    two = dataset.read_file(jsonl(tmp_path / "b.jsonl", ["a", "c"])).label
    assert one.startswith("file sha256:")
    assert one != two


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds no prompt"),
        ("{", "Line 1 of .* is no JSON"),
        ('{"prompt": "a"}\n[]\n', "Line 2 of .* has no text under the key prompt"),
        ('{"prompt": ""}', "no text under the key prompt"),
        ('{"text": "a"}', "no text under the key prompt"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "x.jsonl").write_text(text)
    with pytest.raises(ModelopsError, match=words):
        dataset.read_file(str(tmp_path / "x.jsonl"))


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ModelopsError, match=r"'/nowhere\.jsonl' cannot be read"):
        dataset.read_file("/nowhere.jsonl")


def test_the_file_for_the_client_has_one_prompt_a_line(tmp_path: Path) -> None:
    path = dataset.write_prompts(str(tmp_path), ["a\nb", "ü"])
    assert [json.loads(line) for line in Path(path).read_text().splitlines()] == [{"prompt": "a\nb"}, {"prompt": "ü"}]
