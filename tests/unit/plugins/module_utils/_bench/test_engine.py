# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finding and running the client; the executable is tests/support/fake_vllm.py, which is not vLLM."""

from __future__ import annotations

import stat
import sys
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import builtin, command, engine, process
from ansible_collections.modelops.vllm.plugins.module_utils._bench.points import Measurement, Point
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError

from tests.support import fake_vllm
from tests.support.mock_openai import MockOpenAI

MEASUREMENT = Measurement(Point(concurrency=2, input_len=8, output_len=8, num_prompts=6), repeat=1, seed=3)


def script(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def target(url: str = "http://127.0.0.1:9") -> command.Target:
    return command.Target(url, "mock", "/nowhere")


@pytest.fixture
def no_aiohttp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtin, "find", lambda _installation: None)


@pytest.mark.parametrize("wanted", ["python", "rust"])
def test_a_missing_executable_is_named(wanted: str) -> None:
    with pytest.raises(ModelopsError, match="no executable '/nowhere/vllm'"):
        engine.find_client("/nowhere/vllm", wanted, target())


def test_a_missing_aiperf_is_named() -> None:
    with pytest.raises(ModelopsError, match="no executable '/nowhere/aiperf'"):
        engine.find_client("vllm", "aiperf", target(), aiperf_path="/nowhere/aiperf")


@pytest.mark.parametrize("wanted", ["auto", "builtin"])
@pytest.mark.usefixtures("no_aiohttp")
def test_a_missing_aiohttp_is_named_with_its_package(wanted: str) -> None:
    with pytest.raises(ModelopsError, match="needs the Python package aiohttp") as refusal:
        engine.find_client("/nowhere/vllm", wanted, target())
    assert "python3-aiohttp" in str(refusal.value.remedy)
    assert ("no executable '/nowhere/vllm'" in refusal.value.message) is (wanted == "auto")


@pytest.mark.case("role-chunk-as-first-token")
@pytest.mark.parametrize("wanted", ["python", "rust"])
def test_vllms_clients_measure_no_chat(wanted: str) -> None:
    chat = command.Target("http://h", "m", "/t", endpoint="chat")
    with pytest.raises(ModelopsError, match="take the role of a chat for its first token"):
        engine.find_client("/nowhere/vllm", wanted, chat)


@pytest.mark.parametrize("wanted", ["python", "rust"])
def test_vllms_clients_need_a_tokenizer(wanted: str) -> None:
    with pytest.raises(ModelopsError, match="need the option tokenizer"):
        engine.find_client("/nowhere/vllm", wanted, command.Target("http://h", "m", ""))


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (command.Target("http://h", "m", "/t"), "there is no executable '/nowhere/vllm' on this host"),
        (command.Target("http://h", "m", ""), "vLLM's clients need the option tokenizer"),
        (command.Target("http://h", "m", "/t", endpoint="chat"), "vLLM's clients take the role"),
    ],
)
def test_auto_falls_back_on_the_builtin_client_and_says_why(
    monkeypatch: pytest.MonkeyPatch, asked: command.Target, reason: str
) -> None:
    monkeypatch.setattr(builtin, "find", lambda _installation: ("/usr/bin/python3", "3.9.1"))
    client = engine.find_client("/nowhere/vllm", "auto", asked)
    assert (client.engine, client.executable, client.version) == ("builtin", "/usr/bin/python3", "3.9.1")
    assert client.fallback.startswith(reason)
    assert client.version_field == {"version": "3.9.1"}


@pytest.mark.slow
class TestProcesses:
    def test_a_wrapper_is_asked_for_its_version(self, tmp_path: Path) -> None:
        path = fake_vllm.install(str(tmp_path))
        assert engine.find_client(path, "auto", target()) == engine.Client("python", path, "0.32.0")

    def test_an_old_vllm_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ModelopsError, match=r"vLLM 0\.9\.2 is too old"):
            engine.find_client(fake_vllm.install(str(tmp_path), "old"), "auto", target())

    def test_the_rust_client_is_taken_only_when_its_trial_works(self, tmp_path: Path) -> None:
        package = tmp_path / "site" / "vllm"
        answer = f'{{"version": "0.32.0", "package": "{package}", "pandas": false}}'
        script(tmp_path / "bin" / "python3", f"#!/bin/sh\necho '{answer}'\n")
        vllm = script(tmp_path / "bin" / "vllm", "#!/bin/sh\nexit 9\n")
        assert engine.find_client(vllm, "auto", target()).engine == "python"
        with pytest.raises(ModelopsError, match="does not ship it"):
            engine.find_client(vllm, "rust", target())
        rust = script(package / "vllm-rs", "#!/bin/sh\necho 'Tokenizer error: none' >&2\nexit 1\n")
        assert engine.find_client(vllm, "auto", target()).engine == "python"
        with pytest.raises(ModelopsError, match="Tokenizer error: none"):
            engine.find_client(vllm, "rust", target())
        # Only the trial, which sends nothing, is answered.
        script(package / "vllm-rs", '#!/bin/sh\ncase "$*" in *--dry-run*) exit 0;; esac\nexit 1\n')
        assert engine.find_client(vllm, "auto", target()) == engine.Client("rust", rust, "0.32.0")
        python = engine.find_client(vllm, "python", target())
        assert python == engine.Client("python", vllm, "0.32.0", reads_files=False)

    @pytest.mark.parametrize(
        ("source", "switch"),
        [
            ('parser.add_argument("--custom-skip-chat-template")', "custom-skip-chat-template"),
            ('parser.add_argument("--skip-chat-template")', "skip-chat-template"),
            ("", "skip-chat-template"),
        ],
    )
    def test_a_renamed_switch_is_read_in_the_clients_source(self, tmp_path: Path, source: str, switch: str) -> None:
        package = tmp_path / "site" / "vllm"
        (package / "benchmarks").mkdir(parents=True)
        (package / "benchmarks" / "datasets.py").write_text(source)
        answer = f'{{"version": "0.12.0", "package": "{package}"}}'
        script(tmp_path / "bin" / "python3", f"#!/bin/sh\necho '{answer}'\n")
        vllm = script(tmp_path / "bin" / "vllm", "#!/bin/sh\nexit 9\n")
        assert engine.find_client(vllm, "python", target()).skip_template == switch

    def run(self, vllm: str, url: str, work_dir: Path, **options: t.Any) -> process.ClientRun:
        environment = command.bench_environment({"PATH": "/usr/bin:/bin"}, "127.0.0.1", "key-1")
        client = engine.Client("python", vllm, "0.32.0")
        return engine.run_client(
            client, target(url), MEASUREMENT, str(work_dir), environment=environment, timeout=20, **options
        )

    def test_a_run_brings_the_arrays_and_the_time_of_the_load_alone(self, tmp_path: Path) -> None:
        samples = iter(range(1000))
        with MockOpenAI(api_key="key-1", token_s=0.01) as mock:
            ran = self.run(
                fake_vllm.install(str(tmp_path)), mock.url, tmp_path, sample=lambda: next(samples), sample_every=0.05
            )
        assert ran.rc == 0
        assert ran.raw is not None
        assert ran.raw["output_lens"] == [8] * 6
        assert ran.load_wall_s is not None
        assert 0.2 <= ran.load_wall_s <= ran.wall_s
        assert ran.cpu_share is not None
        assert ran.samples
        assert "Starting main benchmark run" in ran.log

    def test_a_client_that_crashes_leaves_its_log(self, tmp_path: Path) -> None:
        ran = self.run(fake_vllm.install(str(tmp_path), "crash"), "http://127.0.0.1:9", tmp_path)
        assert (ran.rc, ran.raw, ran.timed_out) == (1, None, False)
        assert "RuntimeError: cannot start" in ran.log
        assert ran.cpu_share is None

    def test_a_client_that_hangs_is_ended(self, tmp_path: Path) -> None:
        client = engine.Client("python", fake_vllm.install(str(tmp_path), "hang"), "0.32.0")
        begin = time.monotonic()
        ran = engine.run_client(
            client, target(), MEASUREMENT, str(tmp_path), environment={"PATH": sys.exec_prefix}, timeout=0.5
        )
        assert ran.timed_out
        assert ran.raw is None
        assert time.monotonic() - begin < 10
