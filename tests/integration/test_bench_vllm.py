# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The benchmark against vLLM itself, on the CPU, with a tiny model of random weights: what no mock server can prove."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import signal
import socket
import subprocess
import time
import typing as t
import urllib.request
from pathlib import Path

import pytest
from ansible.module_utils import basic

ROOT = Path(__file__).parents[2]
MODEL = ROOT / ".cache/hub/modelops/demo-moe"
VLLM = Path(os.environ.get("VLLM_VENV", "/nowhere")) / "bin" / "vllm"
KEY = "key-4711-hidden"
START_SECONDS = 600

pytestmark = pytest.mark.skipif(
    not (VLLM.exists() and MODEL.exists()), reason="make setup gives VLLM_VENV and the model"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[str]:
    """vLLM with two sequences at a time and a key; it is ended with its whole process group."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("vllm") / "log"
    options = {"served-model-name": "demo", "host": "127.0.0.1", "port": port, "max-model-len": 512, "max-num-seqs": 2}
    argv = [str(VLLM), "serve", str(MODEL), *(f"--{name}={value}" for name, value in options.items())]
    # Nothing is compiled, which takes minutes on two cores.
    argv.append("--enforce-eager")
    environment = {
        **os.environ,
        "VLLM_API_KEY": KEY,
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    url = f"http://127.0.0.1:{port}"
    with log.open("w") as f:
        process = subprocess.Popen(argv, stdout=f, stderr=f, env=environment, start_new_session=True)
    try:
        _wait(process, url, log)
        yield url
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=5):
            return
        time.sleep(1)
    pytest.fail(f"vLLM did not start: {log.read_text()[-3000:]}")


def bench(url: str, results: Path, **changes: t.Any) -> dict[str, t.Any]:
    """The module's result."""
    params = {
        "url": url,
        "model": "demo",
        "tokenizer": str(MODEL),
        "vllm": str(VLLM),
        "api_key": KEY,
        "concurrency": [2],
        "num_prompts": 12,
        "input_len": 64,
        "output_len": 16,
        "repeats": 1,
        "timeout": 300,
        "results_dir": str(results),
        **changes,
    }
    main = importlib.import_module("ansible_collections.modelops.vllm.plugins.modules.vllm_bench").main
    out = io.StringIO()
    with _arguments(params), contextlib.redirect_stdout(out), pytest.raises(SystemExit):
        main()
    return t.cast(dict[str, t.Any], json.loads(out.getvalue().strip().splitlines()[-1]))


@contextlib.contextmanager
def _arguments(params: dict[str, t.Any]) -> t.Iterator[None]:
    args = {**params, "_ansible_remote_tmp": "/tmp"}
    try:
        from ansible.module_utils.testing import patch_module_args  # noqa: PLC0415
    except ImportError:
        before = basic._ANSIBLE_ARGS
        basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": args}).encode()
        try:
            yield
        finally:
            basic._ANSIBLE_ARGS = before
    else:
        with patch_module_args(args):
            yield


def ids(result: dict[str, t.Any], severity: str | None = None) -> set[str]:
    return {f["id"] for f in result["findings"] if severity in (None, f["severity"])}


@pytest.mark.case("auth-models-lookup", "endpoint-mismatch", "empty-text-error", "skip-tokenizer-one-token")
@pytest.mark.parametrize(
    ("engine", "endpoint"), [("python", "completions"), ("builtin", "completions"), ("builtin", "chat")]
)
def test_every_engine_is_confirmed_by_the_servers_counters(
    server: str, tmp_path: Path, engine: str, endpoint: str
) -> None:
    result = bench(server, tmp_path, engine=engine, endpoint=endpoint)
    assert result["valid"] is True, result
    assert result["engine"] == engine
    (point,) = result["points"]
    # Random weights give tokens without text, too: they count, by the usage and by the server.
    assert point["metrics"]["output_tokens"] == 12 * 16
    assert point["server"]["generation_tokens"] == 12 * 16
    assert point["server"]["prefix_hit_rate"] <= 0.05
    # Token ids are exact; what is decoded and encoded again, or goes through a template, is nearly so.
    assert point["metrics"]["input_len"]["mean"] == pytest.approx(64, rel=0 if engine == "builtin" else 0.05)
    if endpoint == "chat":
        # On a busy host the client is late, and both are withheld.
        assert (point["metrics"]["ttfo_ms"]["n"] >= 1) is (point["metrics"]["ttft_ms"]["n"] >= 1)
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*.json*") if path.suffix != ".gz")
    assert KEY.encode() not in stored


def test_the_identity_has_the_servers_process_and_its_software(server: str, tmp_path: Path) -> None:
    (point,) = bench(server, tmp_path, engine="builtin", tokenizer=None)["points"]
    host = point["identity"]["host"]
    assert "--max-num-seqs=2" in host["process"]["args"]
    assert host["process"]["env"]["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert host["process"]["env"]["VLLM_API_KEY"] == "***"
    assert host["software"]["torch"]
    assert point["identity"]["server"]["vllm_version"].startswith("0.")


@pytest.mark.case("ttft-includes-queue")
def test_time_in_the_servers_queue_is_told(server: str, tmp_path: Path) -> None:
    result = bench(server, tmp_path, engine="builtin", concurrency=[12], num_prompts=24)
    (point,) = result["points"]
    assert point["server"]["peak_waiting"] or point["server"]["queue_ms_mean"] > 0
    assert "ttft-includes-queue" in ids(result, "warning")


@pytest.mark.case("warmup-uses-first-prompt", "worker-same-seed")
def test_the_same_seed_again_comes_out_of_the_prefix_cache_and_is_refused(server: str, tmp_path: Path) -> None:
    given = {"engine": "builtin", "seed": 4711, "input_len": 256, "concurrency": [1], "num_prompts": 8}
    first = bench(server, tmp_path / "1", **given)
    again = bench(server, tmp_path / "2", **given)
    assert "prefix-cache-hits" not in ids(first, "error")
    assert "prefix-cache-hits" in ids(again, "error")
    assert again["valid"] is False


@pytest.mark.case("range-ratio-context-overflow")
def test_a_point_longer_than_the_context_is_not_sent(server: str, tmp_path: Path) -> None:
    result = bench(server, tmp_path, engine="builtin", input_len=500, output_len=20)
    (found,) = result["points"][0]["findings"]
    assert (found["id"], found["numbers"]["max_model_len"]) == ("context-too-long", 512)


def test_a_wrong_key_is_told_before_anything_is_measured(server: str, tmp_path: Path) -> None:
    result = bench(server, tmp_path, engine="builtin", api_key="other")
    assert result["failed"] is True
    assert "refuses the key (HTTP 401)" in result["msg"]
