# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate made of the help page of vLLM 0.32.0 (tests/unit/fixtures/vllm_serve_help.txt, shortened)."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._serve.flags import (
    Flag,
    for_config_file,
    gate,
    parse_help,
)


@pytest.fixture
def known(load_fixture: t.Callable[[str], str]) -> list[Flag]:
    return parse_help(load_fixture("vllm_serve_help.txt"))


def by_name(known: list[Flag], name: str) -> Flag:
    return next(f for f in known if name in f.names)


def test_each_option_is_read_once_with_its_short_names(known: list[Flag]) -> None:
    assert len(known) == 44
    assert by_name(known, "tensor-parallel-size").short == ("tp",)
    assert by_name(known, "data-parallel-external-lb").names == (
        "data-parallel-external-lb",
        "no-data-parallel-external-lb",
    )
    assert by_name(known, "data-parallel-external-lb").short == ("dpe",)
    assert by_name(known, "hf-token").names == ("hf-token",)
    assert by_name(known, "lora-modules").names == ("lora-modules",)


def test_choices_and_the_plugin_that_widens_them_are_read(known: list[Flag]) -> None:
    parser = by_name(known, "tool-call-parser")
    assert "minimax_m2" in parser.choices
    assert parser.plugin == "tool-parser-plugin"
    assert "fp8_e4m3" in by_name(known, "kv-cache-dtype").choices
    assert by_name(known, "tokenizer-mode").choices == ()  # a hint in brackets, which vLLM does not enforce there


@pytest.mark.parametrize("text", ["", "bash: vllm: not found", "usage: other\n\noptions:\n  -h, --help  help\n"])
def test_what_is_no_help_page_of_vllm_is_an_error(text: str) -> None:
    with pytest.raises(ModelopsError, match="no help page of vLLM"):
        parse_help(text)


def test_known_flags_pass(known: list[Flag]) -> None:
    assert gate({"tensor-parallel-size": 8, "tool-call-parser": "minimax_m2", "seed": 1}, known, "0.32.0") == []


def test_an_unknown_flag_is_named(known: list[Flag]) -> None:
    (finding,) = gate({"swap-space": 4}, known, "0.32.0")
    assert finding.id == "flag-unknown"
    assert "swap-space" in finding.message
    assert "0.32.0" in finding.message


def test_an_abbreviation_is_unknown_although_argparse_would_take_it(known: list[Flag]) -> None:
    (finding,) = gate({"max-model-le": 1}, known, "0.32.0")
    assert "Did you mean max-model-len?" in finding.remedy


def test_a_short_name_is_refused_with_the_long_one(known: list[Flag]) -> None:
    (finding,) = gate({"tp": 8}, known, "0.32.0")
    assert "tensor-parallel-size" in finding.remedy


def test_a_value_outside_the_choices_is_refused_unless_a_plugin_brings_it(known: list[Flag]) -> None:
    (finding,) = gate({"tool-call-parser": "mine"}, known, "0.32.0")
    assert finding.id == "flag-choice"
    assert gate({"tool-call-parser": "mine", "tool-parser-plugin": "/p.py"}, known, "0.32.0") == []


def test_false_is_written_as_the_negated_flag_since_vllm_drops_it(known: list[Flag]) -> None:
    flags = {"enable-prefix-caching": False, "disable-log-stats": False, "enforce-eager": True}
    assert for_config_file(flags, known) == {"no-enable-prefix-caching": True, "enforce-eager": True}
    assert for_config_file({"x": False}, ()) == {"no-x": True}


@pytest.mark.parametrize(("word", "name"), [("True", "enforce-eager"), ("no", "no-enforce-eager")])
def test_words_of_a_survey_become_booleans_where_the_flag_is_one(known: list[Flag], word: str, name: str) -> None:
    # C04
    assert for_config_file({"enforce-eager": word, "served-model-name": "true"}, known) == {
        name: True,
        "served-model-name": "true",
    }
