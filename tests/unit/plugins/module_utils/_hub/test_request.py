# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._hub.client import Interpreter, require_version
from ansible_collections.modelops.vllm.plugins.module_utils._hub.request import Request, from_params
from ansible_collections.modelops.vllm.plugins.module_utils._hub.worker import describe

DEFAULTS: dict[str, t.Any] = {
    "repo_id": "org/m",
    "revision": "main",
    "dest": "/srv/m",
    "token": None,
    "token_file": None,
    "endpoint": "https://huggingface.co",
    "allow_patterns": None,
    "ignore_patterns": None,
    "allow_pickle": False,
    "verify": "sha256",
    "reverify": False,
    "max_workers": 8,
    "xet": "auto",
    "offline": False,
    "source_dir": None,
    "source_checksums": None,
    "source_transfer": "copy",
    "min_free": "1GiB",
    "stall_timeout": 300,
    "retries": 5,
    "lock_timeout": 3600,
    "progress_interval": 30,
    "prune": False,
    "strict": False,
    "python": None,
}


def request(**options: t.Any) -> Request:
    return from_params({**DEFAULTS, **options}, "/usr/bin/python3", "/tmp/x", False)


@pytest.mark.parametrize(
    ("patterns", "read"),
    [
        (None, ()),
        ([], ()),
        ([""], ()),
        ([None, "  "], ()),
        (["*.json", " *.safetensors "], ("*.json", "*.safetensors")),
    ],
)
def test_blank_patterns_are_none(patterns: t.Any, read: tuple[str, ...]) -> None:
    asked = request(allow_patterns=patterns, ignore_patterns=patterns).selection
    assert (asked.allow_patterns, asked.ignore_patterns) == (read, read)


def test_what_a_survey_leaves_blank_is_not_given() -> None:
    asked = request(token=" ", token_file="", source_checksums="", allow_patterns=[""])
    assert (asked.token, asked.source_checksums) == ("", "")


@pytest.mark.parametrize(
    ("endpoint", "xet", "on"),
    [
        ("https://huggingface.co", "auto", True),
        ("https://huggingface.co/", "auto", True),
        ("", "auto", True),
        ("https://mirror.example", "auto", False),
        ("https://mirror.example", "on", True),
        ("https://huggingface.co", "off", False),
    ],
)
@pytest.mark.case("mirror-xet-bypass")
def test_xet_is_for_the_public_hub_unless_asked_for(endpoint: str, xet: str, on: bool) -> None:
    assert request(endpoint=endpoint, xet=xet).xet is on


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"repo_id": "datasets/org/d"}, "dataset"),
        ({"repo_id": "spaces/org/d"}, "space"),
        ({"repo_id": "https://huggingface.co/datasets/org/d"}, "dataset"),
        ({"repo_id": "https://huggingface.co/org/m"}, "Give it as org/m,"),
        ({"repo_id": "https://hub.example/org/m/tree/main"}, "Give it as org/m,"),
        ({"repo_id": "org/m/"}, "Give it as org/m,"),
        ({"repo_id": "hf://org/m"}, "Give it as organisation/name"),
        ({"repo_id": "org/m/x"}, "org/m/x"),
        ({"repo_id": "org/mod\u00e8le"}, "Give it as organisation/name"),
        ({"token": "hf_a", "token_file": "/run/t"}, "mutually exclusive"),
        ({"repo_id": "../m"}, "repo_id"),
        ({"repo_id": ""}, "repo_id"),
        ({"dest": "models/m"}, "dest"),
        ({"dest": "/"}, "dest"),
        ({"revision": " "}, "revision"),
        ({"endpoint": "hub.example"}, "endpoint"),
        ({"endpoint": "https://user:secret@hub.example"}, "endpoint"),
        ({"min_free": "lots"}, "min_free"),
        ({"max_workers": 0}, "max_workers"),
        ({"retries": -1}, "retries"),
        ({"stall_timeout": 0}, "stall_timeout"),
        ({"progress_interval": -1}, "progress_interval"),
        ({"token": "a b"}, "token"),
        ({"source_checksums": "/mnt/sums"}, "source_checksums"),
        ({"source_transfer": "hardlink"}, "source_transfer"),
        ({"source_dir": "/mnt/m", "source_checksums": "sums"}, "source_checksums"),
        ({"endpoint": "https://hub.example/?token=secret"}, "endpoint"),
        ({"offline": True, "source_dir": "/mnt/m"}, "source_dir"),
    ],
)
def test_bad_input_is_named(options: dict[str, t.Any], says: str) -> None:
    with pytest.raises(ModelopsError, match=says) as e:
        request(**options)
    assert "secret" not in str(e.value)
    assert e.value.remedy


def test_a_token_is_stripped_and_not_shown() -> None:
    made = request(token=" hf_abc\n")
    assert made.token == "hf_abc"
    assert "hf_abc" not in repr(made)


def test_a_token_is_looked_for_in_the_option_the_file_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    assert request().token == ""
    monkeypatch.setenv("HF_TOKEN", " hf_env\n")
    assert request().token == "hf_env"
    (tmp_path / "t").write_text("\nhf_file\n")
    assert request(token_file=str(tmp_path / "t")).token == "hf_file"
    assert request(token="hf_option").token == "hf_option"


@pytest.mark.parametrize(
    ("revision", "pinned"), [("a" * 40, True), ("a" * 39, False), ("main", False), ("A" * 40, False)]
)
def test_only_a_full_commit_is_pinned(revision: str, pinned: bool) -> None:
    assert request(revision=revision).pinned is pinned


def test_the_worker_inherits_the_network_and_nothing_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "HF_HUB_OFFLINE",
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "TRANSFORMERS_OFFLINE",
        "HF_HUB_CACHE",
        "PYTHONPATH",
    ):
        monkeypatch.setenv(name, "stray")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/ca.pem")
    env = Interpreter("python3", "/scratch", "https://mirror", xet=False, timeout=7).environment()
    assert "stray" not in env.values()
    assert (env["HTTPS_PROXY"], env["SSL_CERT_FILE"]) == ("http://proxy:3128", "/etc/ca.pem")
    assert env["HF_HUB_DISABLE_XET"] == "1"
    assert env["HF_HUB_DOWNLOAD_TIMEOUT"] == "7"
    assert env["HF_HOME"].startswith("/scratch/")
    assert not any("TOKEN" in name and value not in ("1",) for name, value in env.items())


@pytest.mark.parametrize("version", ["0.36.2", "1.0.1", "2.4.0", "3.0.0.dev1", "unknown"])
def test_tested_versions_pass(version: str) -> None:
    require_version(version, "python3")


def test_an_old_version_is_refused_with_what_was_found() -> None:
    with pytest.raises(ModelopsError, match=r"/opt/python has huggingface_hub 0\.30\.2; 0\.36"):
        require_version("0.30.2", "/opt/python")


def test_the_worker_reports_the_chain_without_the_token() -> None:
    failure = OSError(28, "No space left")
    failure.__cause__ = ValueError("Illegal header value b'Bearer hf_secret'")
    outer, inner = describe(failure, "hf_secret")
    assert (outer["errno"], outer["classes"][0]) == (28, "OSError")
    assert "***" in inner["text"]
    assert "hf_secret" not in inner["text"]
