# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What the prompts of a load are: random tokens, the collection's verses, or a user's file. No prompt comes twice.

A prompt that the server has seen is answered out of its prefix cache, so each measurement gets prompts of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import string
import typing as t
from dataclasses import dataclass

from .._errors import ModelopsError
from .points import Measurement, Point, derive_seed
from .verses import VERSES

Name = t.Literal["random", "text", "file"]

# How the datasets are called in the identity of a result.
_LABELS: t.Final[dict[Name, str]] = {"random": "random tokens", "text": "verses of the collection", "file": "file"}


# How much of the context a warm-up's prompt may fill: texts of one length have more tokens and fewer.
_CONTEXT_SHARE: t.Final = 0.9

# Fewer different tokens would repeat whole cache blocks by chance.
MIN_VOCABULARY: t.Final = 32


@dataclass(frozen=True)
class Lengths:
    """How texts become tokens at this server, as its answers tell.

    ``template_tokens`` are those that a chat template adds; ``vocabulary`` are ids of tokens that may be sent as they
    are, which makes lengths exact: without them random prompts are letters.
    """

    characters_per_token: float
    template_tokens: int = 0
    vocabulary: tuple[int, ...] = ()

    def characters(self, tokens: int | None) -> int:
        """The length of a text that gives a prompt of so many tokens."""
        return max(1, round(((tokens or 1) - self.template_tokens) * self.characters_per_token))


@dataclass(frozen=True)
class Dataset:
    """Where prompts come from. ``prompts`` are those of a file, all different, and ``digest`` is of their text."""

    name: Name = "random"
    prompts: tuple[str, ...] = ()
    digest: str = ""

    @property
    def label(self) -> str:
        """The dataset as part of a result's identity."""
        return _LABELS[self.name] + (f" sha256:{self.digest[:16]}" if self.digest else "")

    @property
    def mean_characters(self) -> int:
        """Mean length of a file's prompts."""
        return sum(map(len, self.prompts)) // len(self.prompts) if self.prompts else 0


def random_text(rng: random.Random, characters: int) -> str:
    """Random letters: nobody has sent them before, and each token takes at least one of them."""
    return "".join(rng.choices(string.ascii_letters, k=max(1, characters)))


def verses(rng: random.Random, characters: int) -> str:
    """Verses in a random order, cut to ``characters``; the first line is found in no other prompt."""
    text = f"Letter {rng.getrandbits(64)}:"
    while len(text) < characters:
        text += "\n" + "\n".join(rng.sample(VERSES, len(VERSES)))
    return text[: max(1, characters)]


def read_file(path: str) -> Dataset:
    """The prompts of a JSONL file, one object with the key ``prompt`` a line.

    Prompts that come twice are taken once. Raises ModelopsError for a file that cannot be read or has no prompt.
    """
    prompts: dict[str, None] = {}
    try:
        with open(path, encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                if line.strip():
                    prompts[_prompt(line, f"Line {number} of {path}")] = None
    except (OSError, UnicodeDecodeError) as e:
        raise ModelopsError(f"dataset_file {path!r} cannot be read: {e}.", "Give a JSONL file in UTF-8.") from e
    if not prompts:
        raise ModelopsError(f"dataset_file {path!r} holds no prompt.", 'Give lines such as {"prompt": "Tell me..."}.')
    digest = hashlib.sha256("\0".join(prompts).encode("utf-8", "surrogatepass")).hexdigest()
    return Dataset("file", tuple(prompts), digest)


def _prompt(line: str, where: str) -> str:
    try:
        item = json.loads(line)
    except ValueError as e:
        raise ModelopsError(f"{where} is no JSON: {e}.", "Give one JSON object a line.") from e
    prompt = item.get("prompt") if isinstance(item, dict) else None
    if not isinstance(prompt, str) or not prompt:
        raise ModelopsError(
            f"{where} has no text under the key prompt.", 'Give lines such as {"prompt": "Tell me..."}.'
        )
    return prompt


def check_size(dataset: Dataset, schedule: t.Sequence[Measurement]) -> None:
    """Refuse a file that is too short for a run in which no prompt comes twice."""
    needed = sum(m.point.num_prompts for m in schedule)
    if dataset.name == "file" and needed > len(dataset.prompts):
        raise ModelopsError(
            f"The points and repeats need {needed} prompts, but the dataset has {len(dataset.prompts)} different ones; "
            "prompts that come twice are answered out of the prefix cache.",
            "Add prompts, or lower num_prompts or repeats.",
        )


def make_prompts(
    dataset: Dataset,
    schedule: t.Sequence[Measurement],
    measurement: Measurement,
    base_seed: int,
    lengths: Lengths,
) -> list[str] | list[list[int]]:
    """The prompts of one measurement: text, or token ids for random tokens of a known vocabulary.

    A file is shuffled once by ``base_seed`` and cut into one part for each measurement of the ``schedule``.
    """
    point = measurement.point
    rng = random.Random(measurement.seed)
    if dataset.name == "random" and len(lengths.vocabulary) >= MIN_VOCABULARY:
        return [rng.choices(lengths.vocabulary, k=point.input_len or 1) for _prompt in range(point.num_prompts)]
    if dataset.name != "file":
        make = verses if dataset.name == "text" else random_text
        return [make(rng, lengths.characters(point.input_len)) for _prompt in range(point.num_prompts)]
    before = schedule[: [m.name for m in schedule].index(measurement.name)]
    start = sum(m.point.num_prompts for m in before)
    order = list(dataset.prompts)
    random.Random(derive_seed(base_seed, "dataset")).shuffle(order)
    return order[start : start + point.num_prompts]


def warmup_prompts(dataset: Dataset, point: Point, seed: int, lengths: Lengths, room: int | None = None) -> list[str]:
    """One prompt for each stream of the wave before the load, about as long as those of the load and none of them.

    ``room`` are the tokens that a prompt may have beside its answer; None when that is not known. Instead of a file's
    texts there are verses: letters of the same length would be several times as many tokens.
    """
    rng = random.Random(derive_seed(seed, "warm-up"))
    characters = dataset.mean_characters or lengths.characters(point.input_len)
    if room is not None:
        characters = min(characters, lengths.characters(max(1, int(_CONTEXT_SHARE * room))))
    make = random_text if dataset.name == "random" else verses
    return [make(rng, characters) for _stream in range(point.warmup_streams)]


def write_prompts(directory: str, prompts: t.Iterable[str | t.Sequence[int]]) -> str:
    """The file that ``vllm bench serve --dataset-name custom`` reads; returns its path."""
    path = os.path.join(directory, "prompts.jsonl")
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts)
    return path
