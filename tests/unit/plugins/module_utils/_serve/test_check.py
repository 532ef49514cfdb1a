# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate as a whole, with a stand-in for the installed vLLM; a stamp spares the second question."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.modelops.vllm.plugins.module_utils._findings import Finding, error, warning
from ansible_collections.modelops.vllm.plugins.module_utils._serve import check
from ansible_collections.modelops.vllm.plugins.module_utils._serve.check import Gate, Question, Verdict


class FakeCli:
    """An installed vLLM that lists the flags of the fixture and says what it is told to say."""

    binary = "/nowhere/vllm"
    python = ""

    def __init__(self, help_text: str, said: list[Finding] | None) -> None:
        self._help = help_text
        self._said = said
        self.asked: list[str] = []

    def model_types(self) -> frozenset[str]:
        return frozenset({"minimax_m2"})

    def help_text(self) -> str:
        self.asked.append("help")
        return self._help

    def parse(
        self, config_file: str, env: t.Mapping[str, t.Any], wanted: t.Mapping[str, t.Any]
    ) -> list[Finding] | None:
        self.asked.append("parse")
        self.file = yaml.safe_load(Path(config_file).read_text())
        return self._said


@pytest.fixture
def cli(load_fixture: t.Callable[[str], str]) -> t.Callable[..., FakeCli]:
    return lambda said=(): FakeCli(load_fixture("vllm_serve_help.txt"), None if said is None else list(said))


def question(**changes: t.Any) -> Question:
    given: dict[str, t.Any] = {
        "managed": {"model": "/absent", "host": "127.0.0.1", "port": 8000},
        "profile": {},
        "user": {},
        "env": {},
        "protected": False,
    }
    return Question(**(given | changes))


def judge(cli: t.Any, tmp_path: Path, version: str = "0.32.0", **changes: t.Any) -> Verdict:
    return Gate(cli, version, str(tmp_path)).judge(question(**changes))


def ids(verdict: Verdict) -> list[str]:
    return [f["id"] for f in verdict.findings]


def test_good_args_are_rendered_after_vllm_has_read_them(cli: t.Callable[..., FakeCli], tmp_path: Path) -> None:
    fake = cli()
    verdict = judge(fake, tmp_path, user={"enable-prefix-caching": False})
    assert verdict.valid
    assert (
        yaml.safe_load(verdict.content)
        == fake.file
        == {
            "model": "/absent",
            "host": "127.0.0.1",
            "port": 8000,
            "no-enable-prefix-caching": True,
        }
    )
    assert list(tmp_path.iterdir()) == []


def test_all_that_is_wrong_is_said_at_once_and_nothing_is_rendered(
    cli: t.Callable[..., FakeCli], tmp_path: Path
) -> None:
    fake = cli()
    verdict = judge(fake, tmp_path, user={"swap-space": 4, "port": 1, "grpc": True}, min_version="0.33")
    assert ids(verdict) == ["flag-managed", "flag-not-built", "vllm-too-old", "flag-unknown"]
    assert (verdict.valid, verdict.content, verdict.stamp) == (False, "", "")
    assert fake.asked == ["help"]


def test_what_vllm_itself_refuses_is_not_remembered(cli: t.Callable[..., FakeCli], tmp_path: Path) -> None:
    verdict = judge(cli([error("args-refused", "no")]), tmp_path)
    assert (verdict.valid, verdict.stamp) == (False, "")


def test_a_stamp_answers_the_same_question_only(cli: t.Callable[..., FakeCli], tmp_path: Path) -> None:
    stamp = tmp_path / "stamp.json"
    first = judge(cli([warning("env-unknown", "x")]), tmp_path, stamp=str(stamp))
    stamp.write_text(first.stamp)
    again = cli()
    second = judge(again, tmp_path, stamp=str(stamp))
    assert again.asked == []
    assert (second.content, second.stamp, ids(second)) == (first.content, first.stamp, ["env-unknown"])
    assert (first.asked, second.asked) == (True, False)
    for changes in ({"user": {"seed": 1}}, {"env": {"VLLM_X": "1"}}):
        other = cli()
        judge(other, tmp_path, stamp=str(stamp), **changes)
        assert other.asked == ["parse"]
    newer = cli()
    judge(newer, tmp_path, version="0.33.0", stamp=str(stamp))
    assert newer.asked == ["help", "parse"]
    stamp.write_text("{broken")
    broken = cli()
    judge(broken, tmp_path, stamp=str(stamp))
    assert broken.asked == ["help", "parse"]


def test_a_vllm_that_cannot_be_asked_about_values_leaves_a_warning(
    cli: t.Callable[..., FakeCli], tmp_path: Path
) -> None:
    verdict = judge(cli(None), tmp_path)
    assert verdict.valid
    assert ids(verdict) == ["values-not-checked"]


def test_without_vllm_the_args_are_rendered_and_the_gap_is_said(tmp_path: Path) -> None:
    verdict = judge(None, tmp_path, version="", user={"enforce-eager": False})
    assert verdict.valid
    assert ids(verdict) == ["vllm-not-asked"]
    assert "no-enforce-eager: true" in verdict.content


@pytest.mark.parametrize(("value", "refused"), [("1", True), (1, True), ("0", False), (0, False), (None, False)])
def test_the_routes_of_developers_are_refused(
    cli: t.Callable[..., FakeCli], tmp_path: Path, value: t.Any, refused: bool
) -> None:
    verdict = judge(cli(), tmp_path, env={} if value is None else {"VLLM_SERVER_DEV_MODE": value})
    assert ids(verdict) == (["dev-mode"] if refused else [])
    assert verdict.valid is not refused


@pytest.mark.parametrize(
    ("host", "key", "id_"),
    [
        ("127.0.0.1", False, None),
        ("::1", False, None),
        ("localhost", False, None),
        ("127.0.0.53", False, None),
        ("0.0.0.0", False, "open-server"),
        ("::", False, "open-server"),
        ("::1234", False, "open-server"),
        ("127.evil.example.com", False, "open-server"),
        ("localhost.example.com", False, "open-server"),
        ("10.0.0.5", True, "open-endpoints"),
    ],
)
@pytest.mark.case("B14")
def test_an_address_that_others_reach_is_a_warning(host: str, key: bool, id_: str | None) -> None:
    found = [f.id for f in check.exposure(question(managed={"host": host}, protected=key))]
    assert found == ([] if id_ is None else [id_])


@pytest.mark.parametrize(
    ("flags", "commit", "expected"),
    [
        ({"trust-remote-code": True}, "f710177d938eff80b684d42c5aa84b382612f21f", []),
        ({"trust-remote-code": True}, "", ["remote-code-unpinned"]),
        ({"trust-remote-code": True}, "main", ["remote-code-unpinned"]),
        ({"trust-remote-code": True}, None, []),  # check mode, before the snapshot is there
        ({}, "", []),
    ],
)
def test_code_runs_from_a_proven_commit_only(flags: dict[str, t.Any], commit: str | None, expected: list[str]) -> None:
    assert [f.id for f in check.unpinned_code({"model": "/m", **flags}, commit)] == expected


@pytest.mark.parametrize(
    ("flags", "timeout", "expected"),
    [
        pytest.param({}, 3, ["stop-timeout-short"], id="B03-3"),
        pytest.param({}, 5, ["stop-timeout-short"], id="B03-5"),
        pytest.param({}, 10, ["stop-timeout-short"], id="B03-10"),
        pytest.param({}, 60, [], id="B03-60"),
        pytest.param({"shutdown-timeout": 60}, 60, ["stop-timeout-short"], id="B03-shutdown-timeout-60"),
        pytest.param({"shutdown-timeout": "60"}, 70, ["stop-timeout-short"], id="B03-no-margin"),
        pytest.param({"shutdown-timeout": 60}, 71, [], id="B03-margin"),
        pytest.param({"shutdown-timeout": "often"}, 60, [], id="B03-what-the-parser-refuses"),
    ],
)
def test_the_unit_gives_vllm_the_time_that_it_was_given_to_stop(
    flags: dict[str, t.Any], timeout: int, expected: list[str]
) -> None:
    assert [f.id for f in check.short_stop(flags, timeout)] == expected


@pytest.mark.case("A24")
def test_code_of_the_repository_is_an_error_until_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"auto_map": {"AutoConfig": "x.Y"}}))
    (finding,) = check.model_files({"model": str(tmp_path)})
    assert finding.id == "remote-code-refused"
    assert check.model_files({"model": str(tmp_path), "trust-remote-code": True}) == []


def test_code_that_the_installed_libraries_make_needless_is_no_error(tmp_path: Path) -> None:
    # As MiniMax-M2.5 is published; a tokenizer with code of its own is another matter.
    config = {"model_type": "minimax_m2", "auto_map": {"AutoConfig": "x.Y"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    flags: dict[str, t.Any] = {"model": str(tmp_path)}
    assert check.model_files(flags, {"minimax_m2"}) == []
    assert [f.id for f in check.model_files(flags, {"minimax"})] == ["remote-code-refused"]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"auto_map": {"AutoTokenizer": "x.Y"}}))
    (finding,) = check.model_files(flags, {"minimax_m2"})
    assert finding.message.startswith("tokenizer_config.json of ")


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("0.10.0", []),
        ("0.10.1", ["remote-code-unguarded"]),
        ("0.13.0+cu129", ["remote-code-unguarded"]),
        ("0.14.0", []),
        ("", []),
    ],
)
def test_a_vllm_that_runs_code_without_being_asked_is_refused(tmp_path: Path, version: str, found: list[str]) -> None:
    config = {"model_type": "minimax_m2", "auto_map": {"AutoConfig": "x.Y"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    flags: dict[str, t.Any] = {"model": str(tmp_path)}
    assert [f.id for f in check.model_files(flags, {"minimax_m2"}, version)] == found
    assert check.model_files({**flags, "trust-remote-code": True}, {"minimax_m2"}, version) == []


@pytest.mark.case("A25")
@pytest.mark.parametrize(
    ("model_type", "config", "tools", "expected"),
    [
        ("glm4_moe", {"method": "mtp", "num_speculative_tokens": 2}, False, ["speculative-tokens"]),
        (
            "glm4_moe",
            '{"method": "mtp", "num_speculative_tokens": 2}',
            True,
            ["speculative-tokens", "speculative-tools"],
        ),
        ("glm4_moe", {"method": "mtp", "num_speculative_tokens": 1}, True, ["speculative-tools"]),
        ("glm4_moe", {"method": "mtp", "num_speculative_tokens": 1}, False, []),
        ("glm4_moe", {"method": "ngram", "num_speculative_tokens": 4}, True, []),
        ("glm4_moe", None, True, []),
        ("glm4_moe", "no json", True, []),
        ("deepseek_v3", {"method": "mtp", "num_speculative_tokens": 3}, True, []),
    ],
)
def test_multi_token_prediction_is_a_warning_where_it_harms(
    tmp_path: Path, model_type: str, config: object, tools: bool, expected: list[str]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    flags: dict[str, t.Any] = {"model": str(tmp_path), "enable-auto-tool-choice": tools}
    if config is not None:
        flags["speculative-config"] = config
    found = check.speculation(flags)
    assert [f.id for f in found] == expected
    assert all(f.severity == "warning" for f in found)


@pytest.mark.case("A23")
def test_a_chat_template_over_the_models_own_is_a_warning(tmp_path: Path) -> None:
    flags: dict[str, t.Any] = {"model": str(tmp_path), "chat-template": "/other.jinja"}
    assert check.model_files(flags) == []
    (tmp_path / "chat_template.jinja").write_text("x")
    assert [f.id for f in check.model_files(flags)] == ["chat-template-overridden"]
