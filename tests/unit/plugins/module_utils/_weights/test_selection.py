# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._weights.checks import RemoteFile
from ansible_collections.modelops.vllm.plugins.module_utils._weights.manifest import Selection
from ansible_collections.modelops.vllm.plugins.module_utils._weights.selection import (
    Listing,
    Target,
    choose,
    indices_among,
)

INDEX = "model.safetensors.index.json"


def listing(names: t.Iterable[str], shards: t.Mapping[str, t.Iterable[str]] | None = None, size: int = 10) -> Listing:
    """Files of equal size; ``shards`` are the indices in the root and what they name."""
    indices = {
        index: json.dumps({"weight_map": {f"t{i}": s for i, s in enumerate(of)}})
        for index, of in (shards or {}).items()
    }
    return Listing("c" * 40, {n: RemoteFile(n, size, "0" * 64) for n in [*names, *indices]}, indices)


def select(listed: Listing, *allow: str, ignore: t.Iterable[str] = (), pickle: bool = False) -> Target:
    return choose("org/m", listed, Selection(allow, tuple(ignore), pickle))


def ids(target: Target) -> list[str]:
    return [f.id for f in target.findings]


def refusal(*args: t.Any, **kwargs: t.Any) -> str:
    with pytest.raises(ModelopsError) as e:
        select(*args, **kwargs)
    return str(e.value.result["findings"][0]["id"])


def test_a_release_with_two_more_copies_of_itself_is_taken_once() -> None:
    """openai/gpt-oss-120b holds its weights three times."""
    listed = listing(
        ["config.json", "a-1.safetensors", "a-2.safetensors", "original/model.safetensors", "metal/model.bin"],
        {INDEX: ["a-1.safetensors", "a-2.safetensors"]},
    )
    target = select(listed)
    assert set(target.files) == {"config.json", INDEX, "a-1.safetensors", "a-2.safetensors"}
    assert target.shards == ("a-1.safetensors", "a-2.safetensors")
    (left_out,) = target.findings
    assert left_out.numbers == {
        "files": ["metal/model.bin", "original/model.safetensors"],
        "bytes": 20,
        "groups": {"metal/": 10, "original/": 10},
    }


@pytest.mark.parametrize(
    "extra",
    [
        ["consolidated.safetensors"],
        ["consolidated-00001-of-00002.safetensors", "consolidated-00002-of-00002.safetensors"],
        ["pytorch_model-00001-of-00002.bin", "pytorch_model.bin.index.json"],
        ["original/consolidated.00.pth"],
        ["model-Q4.gguf", "tf_model.h5", "flax_model.msgpack", "onnx/model.onnx"],
        ["training_args.bin", "optimizer.pt"],
    ],
)
@pytest.mark.case("consolidated-duplicate")
def test_other_forms_beside_safetensors_are_left_out(extra: list[str]) -> None:
    for shards in ({INDEX: ["w-1.safetensors"]}, {}):
        listed = listing(["config.json", "w-1.safetensors", *extra], shards)
        assert set(listed.files) - set(select(listed).files) == set(extra)


def test_a_second_index_of_the_same_model_does_not_count() -> None:
    other = "consolidated.safetensors.index.json"
    listed = listing(["m.safetensors", "consolidated-1.safetensors"], {INDEX: ["m.safetensors"], other: ["absent"]})
    assert set(select(listed).files) == {"m.safetensors", INDEX}


def test_a_model_that_is_only_there_in_its_consolidated_form_is_taken() -> None:
    assert select(listing(["consolidated.safetensors"])).shards == ("consolidated.safetensors",)


def test_nested_weights_without_an_index_in_the_root_are_taken() -> None:
    target = select(listing(["model_index.json", "unet/w.safetensors", "vae/w.safetensors"]))
    assert target.shards == ("unet/w.safetensors", "vae/w.safetensors")


def test_a_pattern_never_splits_a_model() -> None:
    listed = listing(["config.json", "0.safetensors", "1.safetensors"], {INDEX: ["0.safetensors", "1.safetensors"]})
    target = select(listed, "*.json", "0.*")
    assert set(target.files) == set(listed.files)
    assert ids(target) == ["selection-completed"]
    target = select(listed, ignore=["1.*"])
    assert target.shards == ("0.safetensors", "1.safetensors")


def test_small_files_alone_can_be_asked_for_and_that_is_said() -> None:
    listed = listing(["config.json", "0.safetensors"], {INDEX: ["0.safetensors"]})
    target = select(listed, "*.json")
    assert target.shards == ()
    assert ids(target) == ["weights-left-out", "no-weights"]


def test_patterns_match_as_on_the_hub() -> None:
    listed = listing(["config.json", "sub/config.json", "sub/a.safetensors", "w.safetensors"])
    assert set(select(listed, "*.json").files) == {"config.json", "sub/config.json"}
    assert set(select(listed, "sub/").files) == {"sub/config.json", "sub/a.safetensors"}
    assert set(select(listed, ignore=["sub/"]).files) == {"config.json", "w.safetensors"}
    assert refusal(listed, "./config.json") == "pattern-no-match"
    assert refusal(listed, ignore=["*"]) == "pattern-no-match"


def test_pickles_need_a_word() -> None:
    listed = listing(["config.json", "pytorch_model.bin"])
    assert refusal(listed) == "pickle-refused"
    assert refusal(listing(["w.safetensors", "pytorch_model.bin"]), "*.bin") == "pickle-refused"
    assert select(listed, pickle=True).shards == ("pytorch_model.bin",)


def test_of_several_gguf_models_one_is_chosen_with_all_its_parts() -> None:
    names = ["Q4-00001-of-00002.gguf", "Q4-00002-of-00002.gguf", "Q8.gguf", "README.md"]
    assert refusal(listing(names)) == "choice-needed"
    assert select(listing(names), "Q4-00001*").shards == tuple(names[:2])
    assert select(listing(names[:2])).shards == tuple(names[:2])


def test_pieces_of_a_gguf_file_belong_together() -> None:
    names = ["Q4.gguf.part1of2", "Q4.gguf.part2of2", "Q8.gguf"]
    assert refusal(listing(names)) == "choice-needed"
    assert select(listing(names), "*part1of2").shards == tuple(names[:2])


def test_a_component_is_never_split_and_its_absent_shards_are_named() -> None:
    nested = "unet/model.safetensors.index.json"
    names = ["model_index.json", "unet/a.safetensors", "unet/b.safetensors", "vae/w.safetensors"]
    listed = listing(names, {nested: ["a.safetensors", "b.safetensors"]})
    assert select(listed, "unet/a*").shards == ("unet/a.safetensors", "unet/b.safetensors")
    assert set(select(listed).files) == {*names, nested}
    listed = listing(names, {nested: ["a.safetensors", "c.safetensors"]})
    assert refusal(listed) == "upstream-inconsistent"
    assert select(listed, "vae/*").shards == ("vae/w.safetensors",)


def test_the_indices_to_read_are_those_of_the_root_and_of_components() -> None:
    names = [INDEX, f"unet/{INDEX}", f"original/{INDEX}", f"../{INDEX}", "config.json"]
    assert indices_among(names) == [INDEX, f"unet/{INDEX}"]
    assert len(indices_among([INDEX, *(f"{i}/{INDEX}" for i in range(100))])) == 33


@pytest.mark.parametrize("name", ["../x", "/x", "a/../x", "a//x", "a\\x", "C:x", "a\0x", ".", ".git/config"])
@pytest.mark.case("path-traversal-mirror")
def test_names_that_leave_the_folder_are_refused(name: str) -> None:
    assert refusal(listing(["config.json", name])) == "unsafe-name"


@pytest.mark.case("index-names-absent-shards")
def test_shards_that_the_commit_does_not_have_are_named() -> None:
    with pytest.raises(ModelopsError, match=r"2 of them are not in org/m.*2\.safetensors, 3\.safetensors") as e:
        select(listing(["1.safetensors"], {INDEX: ["1.safetensors", "2.safetensors", "3.safetensors"]}))
    assert e.value.result["shards"]["missing"] == ["2.safetensors", "3.safetensors"]


def test_the_books_of_the_client_are_no_part_of_a_model() -> None:
    assert set(select(listing(["w.safetensors", ".cache/huggingface/x.metadata"])).files) == {"w.safetensors"}


@pytest.mark.parametrize(
    "names",
    [["m/q4-00001-of-00003.gguf", "m/q4-00002-of-00003.gguf"], ["q4.gguf.part1of3", "q4.gguf.part2of3"]],
)
@pytest.mark.parametrize("allow", [(), ("*q4*",)])
def test_a_split_gguf_file_without_one_of_its_parts_cannot_be_completed(names: list[str], allow: tuple[str]) -> None:
    with pytest.raises(ModelopsError) as e:
        select(listing(["README.md", *names]), *allow)
    assert e.value.result["findings"][0]["id"] == "upstream-inconsistent"
    absent = names[1].replace("00002-", "00003-").replace("part2", "part3")
    assert e.value.result["shards"] == {"expected": 3, "present": 0, "missing": [absent], "bad": []}


PICKLED = [f"pytorch_model-0000{i}-of-00003.bin" for i in (1, 2, 3)]
PICKLE_INDEX = "pytorch_model.bin.index.json"


def test_the_index_of_pickles_names_its_shards_too() -> None:
    listed = listing(["config.json", *PICKLED], {PICKLE_INDEX: PICKLED})
    assert select(listed, "config.json", PICKLED[0], pickle=True).shards == tuple(PICKLED)
    listed = listing(["config.json", *PICKLED, "training_args.bin"], {PICKLE_INDEX: PICKLED})
    assert set(select(listed, pickle=True).files) == set(listed.files)
    assert refusal(listed) == "pickle-refused"
    listed = listing(["config.json", *PICKLED[:2]], {PICKLE_INDEX: PICKLED})
    assert refusal(listed, pickle=True) == "upstream-inconsistent"
    assert set(select(listed, "*.json").files) == {"config.json", PICKLE_INDEX}, "no pickle is wanted"


def test_the_index_of_pickles_repeats_safetensors_beside_it() -> None:
    names = ["model.safetensors", *PICKLED, PICKLE_INDEX]
    assert indices_among(names) == []
    assert set(select(listing(names)).files) == {"model.safetensors"}
    assert set(select(listing(names), pickle=True).files) == {"model.safetensors"}
    chosen = select(listing(names), PICKLED[1], pickle=True)
    assert chosen.shards == tuple(PICKLED)
    assert ids(chosen) == ["selection-completed"]


def test_the_index_of_a_component_of_pickles_goes_with_them() -> None:
    parts = ["unet/m-00001-of-00002.bin", "unet/m-00002-of-00002.bin"]
    nested = "unet/m.bin.index.json"
    names = ["model_index.json", *parts]
    assert indices_among([*names, nested]) == [nested]
    listed = listing(names, {nested: ["m-00001-of-00002.bin", "m-00002-of-00002.bin"]})
    assert refusal(listed) == "pickle-refused"
    assert select(listed, pickle=True).shards == tuple(parts)
    listed = listing([*names, "vae/w.safetensors"], {nested: ["m-00001-of-00002.bin", "m-00002-of-00002.bin"]})
    assert set(select(listed).files) == {"model_index.json", "vae/w.safetensors"}


def test_components_of_pickles_alone_need_a_word() -> None:
    listed = listing(["model_index.json", "unet/config.json", "unet/diffusion_pytorch_model.bin"])
    assert refusal(listed) == "pickle-refused"


@pytest.mark.parametrize("name", ["x" * 300, "a\ud800", "a\nb", "sub"])
def test_names_that_cannot_be_written_are_refused(name: str) -> None:
    assert refusal(listing(["config.json", "sub/config.json", name])) == "unsafe-name"


def test_an_index_whose_name_is_unsafe_is_not_asked_for() -> None:
    assert indices_among([f"a\ud800{INDEX}", f"u\n/{INDEX}", "x\n.bin.index.json"]) == []
