# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module against a server with faults; the client is tests/support/fake_vllm.py, as naive as the real one."""

from __future__ import annotations

import gzip
import json
import typing as t
from pathlib import Path

import pytest

from tests.support import fake_vllm
from tests.support.mock_openai import MockOpenAI

RunModule = t.Callable[..., dict[str, t.Any]]
# Requests before the measured ones: the readiness completion, and one warm-up wave of four.
BEFORE_LOAD = 5


def params(tmp_path: Path, url: str = "http://127.0.0.1:9", **changes: t.Any) -> dict[str, t.Any]:
    tokenizer = tmp_path / "model"
    tokenizer.mkdir(exist_ok=True)
    return {
        "url": url,
        "model": "mock",
        "tokenizer": str(tokenizer),
        "vllm": str(tmp_path / "vllm"),
        "concurrency": [4],
        "num_prompts": 16,
        "input_len": 16,
        "output_len": 20,
        "repeats": 1,
        "timeout": 30,
        "results_dir": str(tmp_path / "results"),
        **changes,
    }


def ids(findings: list[dict[str, t.Any]], severity: str | None = None) -> set[str]:
    return {f["id"] for f in findings if severity in (None, f["severity"])}


def test_check_mode_plans_without_a_server_and_without_vllm(run_module: RunModule, tmp_path: Path) -> None:
    given = params(tmp_path, concurrency=["8", 1], num_prompts=0, repeats="2")
    given["tokenizer"] = "/nowhere"
    result = run_module("vllm_bench", given, check=True)
    assert result["changed"] is True
    assert [(p["point"]["id"], p["repeat"]) for p in result["points"]] == [
        ("c1-i16-o20-n11", 1),
        ("c8-i16-o20-n80", 1),
        ("c1-i16-o20-n11", 2),
        ("c8-i16-o20-n80", 2),
    ]
    assert result["results_file"] == ""
    assert not (tmp_path / "results").exists()


def test_points_replace_the_short_form(run_module: RunModule, tmp_path: Path) -> None:
    points = [{"concurrency": 2, "input_len": 100}, {"concurrency": 3, "output_len": 7, "num_prompts": 9}]
    result = run_module("vllm_bench", params(tmp_path, points=points), check=True)
    assert {p["point"]["id"] for p in result["points"]} == {"c2-i100-o20-n16", "c3-i16-o7-n9"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"engine": "aiperf"}, "aiperf is not built"),
        ({"engine": "builtin"}, "builtin is not built"),
        ({"url": "127.0.0.1:8000"}, "server's root"),
        ({"repeats": 0}, "repeats is 0"),
        ({"gpus": 0}, "gpus is 0"),
        ({"timeout": 0}, "timeout is 0"),
        ({"max_failures": -1}, "max_failures is -1"),
        ({"model": ""}, "model is empty"),
        ({"concurrency": []}, "no point to measure"),
        ({"concurrency": [32]}, "fewer than the 32"),
        ({"output_len": 1}, "output_len is 1"),
    ],
)
def test_bad_options_are_refused_also_in_check_mode(
    run_module: RunModule, tmp_path: Path, changes: dict[str, t.Any], words: str
) -> None:
    result = run_module("vllm_bench", params(tmp_path, **changes), check=True)
    assert result["failed"] is True
    assert words in result["msg"]


def test_a_missing_tokenizer_is_named(run_module: RunModule, tmp_path: Path) -> None:
    result = run_module("vllm_bench", {**params(tmp_path), "tokenizer": "/nowhere/model"})
    assert result["failed"] is True
    assert "'/nowhere/model' is no directory" in result["msg"]


@pytest.mark.slow
class TestMeasuring:
    @pytest.fixture(autouse=True)
    def _vllm(self, tmp_path: Path) -> None:
        fake_vllm.install(str(tmp_path))

    def test_a_healthy_server_gives_valid_points_and_files(self, run_module: RunModule, tmp_path: Path) -> None:
        with MockOpenAI(first_token_s=0.05, token_s=0.01) as mock:
            given = params(tmp_path, mock.url + "/v1", concurrency=[1, 4], repeats=2, gpus=2)
            result = run_module("vllm_bench", {**given, "identity": {"layout": "tp2", "api_token": "tok-1"}})
            prompts = mock.counters.prompts
        assert result["valid"] is True
        assert result["engine"] == "python"
        assert result["vllm_version"] == "0.32.0"
        assert len(result["points"]) == 4
        assert ids(result["findings"], "error") == set()
        # One readiness completion, and for each measurement a warm-up wave and the load: all prompts are different.
        assert len(prompts) == 1 + 2 * (1 + 16) + 2 * (4 + 16)
        assert len(set(prompts)) == len(prompts)
        point = result["points"][1]
        figures = point["metrics"]
        assert point["point"]["concurrency"] == 4
        assert figures["output_tokens"] == 320
        assert figures["peak_in_flight"] == 4
        # On a host that is too busy for the client, these two are withheld and told instead.
        withheld = "token-times-withheld" in ids(point["findings"])
        assert (figures["ttft_ms"]["median"] is None) is withheld
        assert withheld or figures["ttft_ms"]["median"] >= 50
        assert withheld or figures["tpot_ms"]["median"] >= 10
        assert figures["output_tokens_per_s_per_gpu"] == pytest.approx(figures["output_tokens_per_s"] / 2)
        assert point["server"]["generation_tokens"] == 320
        assert point["identity"]["given"] == {"layout": "tp2", "api_token": "***"}
        assert point["identity"]["server"]["enable_prefix_caching"] == "True"
        lines = Path(result["results_file"]).read_text().splitlines()
        assert [json.loads(line)["point"]["id"] for line in lines] == [p["point"]["id"] for p in result["points"]]
        raw = json.loads(gzip.decompress((Path(result["results_file"]).parent / point["raw"]).read_bytes()))
        assert raw["output_lens"] == [20] * 16
        assert "generated_texts" not in raw

    @pytest.mark.parametrize(
        ("fault", "kind"),
        [
            ("http_500", "request-error"),  # all-fail-exit-0
            ("error_event", "stream-cut"),  # error-event-counted-success: 5 words guessed as 20 tokens
            ("cut", "stream-cut"),  # truncated-stream-counted-success
            ("early_stop", "output-length"),  # ignore-eos-missing
            ("no_usage", "output-length"),  # 20 words guessed as 80 tokens
            ("reset", "request-error"),
        ],
    )
    @pytest.mark.parametrize("metrics", [True, False])
    def test_a_fault_under_load_makes_the_point_invalid(
        self, run_module: RunModule, tmp_path: Path, fault: str, kind: str, metrics: bool
    ) -> None:
        with MockOpenAI(fault=fault, every=2, healthy=BEFORE_LOAD, metrics=metrics) as mock:
            result = run_module("vllm_bench", params(tmp_path, mock.url))
        assert result["valid"] is False
        assert not result.get("failed")
        (point,) = result["points"]
        assert point["valid"] is False
        (found,) = [f for f in point["findings"] if f["id"] == "requests-failed"]
        assert found["numbers"]["kinds"] == {kind: 8}
        assert point["metrics"]["failed"] == 8

    def test_when_every_request_fails_there_are_no_figures(self, run_module: RunModule, tmp_path: Path) -> None:
        with MockOpenAI(fault="http_500", healthy=BEFORE_LOAD) as mock:
            result = run_module("vllm_bench", params(tmp_path, mock.url))
        assert result["valid"] is False
        assert result["points"][0]["metrics"] is None

    def test_failures_within_the_budget_are_told(self, run_module: RunModule, tmp_path: Path) -> None:
        with MockOpenAI(fault="early_stop", every=8, healthy=BEFORE_LOAD) as mock:
            result = run_module("vllm_bench", params(tmp_path, mock.url, max_failures=2))
        assert result["valid"] is True
        assert "requests-failed" in ids(result["findings"], "warning")
        assert result["points"][0]["metrics"]["requests"] == 14

    @pytest.mark.parametrize(
        ("behaviour", "expected"),
        [
            ({"prefix_hit_rate": 0.94}, "prefix-cache-hits"),
            ({"foreign_tokens": 10}, "other-traffic"),
            ({"restart_after": 10}, "server-restarted"),
        ],
    )
    def test_what_the_server_counts_can_make_a_point_invalid(
        self, run_module: RunModule, tmp_path: Path, behaviour: dict[str, t.Any], expected: str
    ) -> None:
        with MockOpenAI(**behaviour) as mock:
            result = run_module("vllm_bench", params(tmp_path, mock.url))
        assert result["valid"] is False
        assert expected in ids(result["findings"], "error")

    @pytest.mark.parametrize(
        ("behaviour", "expected"),
        [
            ({"metrics": False}, "server-counters-missing"),
            ({"metrics_still": True}, "server-counters-still"),
            ({"preemptions": 1}, "preemptions"),
            ({"version": "0.31.0"}, "client-version-differs"),
        ],
    )
    def test_what_costs_certainty_is_told(
        self, run_module: RunModule, tmp_path: Path, behaviour: dict[str, t.Any], expected: str
    ) -> None:
        with MockOpenAI(**behaviour) as mock:
            result = run_module("vllm_bench", params(tmp_path, mock.url))
        assert result["valid"] is True
        assert expected in ids(result["findings"], "warning")

    def test_merged_tokens_leave_the_point_valid(self, run_module: RunModule, tmp_path: Path) -> None:
        # chunk-is-not-token-coalesced, first-chunk-bundles-tokens
        with MockOpenAI(tokens_per_event=4, token_s=0.002, metrics=False) as mock:
            result = run_module("vllm_bench", params(tmp_path, mock.url))
        assert result["valid"] is True
        assert result["points"][0]["metrics"]["tokens_per_event"] == 4.0
        assert "tokens-merged" in ids(result["findings"], "info")

    def test_a_busy_server_is_not_measured(
        self, run_module: RunModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            "ansible_collections.modelops.vllm.plugins.module_utils._bench.measure._IDLE_TIMEOUT_S", 0.3
        )
        with MockOpenAI(busy=2) as mock:
            result = run_module("vllm_bench", params(tmp_path, mock.url))
            assert len(mock.counters.prompts) == BEFORE_LOAD
        assert result["valid"] is False
        assert ids(result["findings"], "error") == {"server-busy"}

    def test_a_point_that_does_not_fit_is_refused_and_the_others_are_measured(
        self, run_module: RunModule, tmp_path: Path
    ) -> None:
        # range-ratio-context-overflow
        points = [{"concurrency": 4}, {"concurrency": 4, "input_len": 90}]
        with MockOpenAI(max_model_len=100) as mock:
            result = run_module("vllm_bench", params(tmp_path, mock.url, points=points))
        assert [p["valid"] for p in result["points"]] == [True, False]
        (found,) = result["points"][1]["findings"]
        assert found["id"] == "context-too-long"
        assert found["numbers"] == {"input_len": 90, "output_len": 20, "max_model_len": 100}

    def test_a_bad_warm_up_stops_the_point_before_its_load(self, run_module: RunModule, tmp_path: Path) -> None:
        with MockOpenAI(fault="cut", healthy=1) as mock:
            result = run_module("vllm_bench", params(tmp_path, mock.url))
            assert len(mock.counters.prompts) == BEFORE_LOAD
        assert result["valid"] is False
        (found,) = result["points"][0]["findings"]
        assert (found["id"], found["numbers"]["kind"]) == ("warm-up-failed", "stream-cut")

    @pytest.mark.parametrize(
        ("behaviour", "words"),
        [
            ({"fault": "http_500"}, "did not answer a completion of 'mock' as it must: HTTP 500"),
            ({"model": "other"}, "does not serve 'mock' but other"),
            ({"api_key": "right"}, "refuses the key (HTTP 401)"),
        ],
    )
    def test_a_server_that_cannot_be_measured_is_a_failure(
        self, run_module: RunModule, tmp_path: Path, behaviour: dict[str, t.Any], words: str
    ) -> None:
        with MockOpenAI(**behaviour) as mock:
            result = run_module("vllm_bench", params(tmp_path, mock.url))
        assert result["failed"] is True
        assert words in result["msg"]
        assert not (tmp_path / "results").exists()

    def test_a_closed_port_is_a_failure(self, run_module: RunModule, tmp_path: Path) -> None:
        # readiness-default-off
        with MockOpenAI() as mock:
            url = mock.url
        result = run_module("vllm_bench", params(tmp_path, url))
        assert result["failed"] is True
        assert f"No server answers at {url}" in result["msg"]

    @pytest.mark.parametrize(("mode", "expected"), [("crash", "client-failed"), ("hang", "client-timeout")])
    def test_a_client_that_does_not_measure_makes_the_point_invalid(
        self, run_module: RunModule, tmp_path: Path, mode: str, expected: str
    ) -> None:
        vllm = fake_vllm.install(str(tmp_path), mode)
        with MockOpenAI(api_key="key-4711") as mock:
            given = params(tmp_path, mock.url, vllm=vllm, api_key="key-4711", timeout=1)
            result = run_module("vllm_bench", given)
        assert result["valid"] is False
        assert ids(result["points"][0]["findings"]) == {expected}

    def test_the_key_is_in_no_file_and_no_result(self, run_module: RunModule, tmp_path: Path) -> None:
        vllm = fake_vllm.install(str(tmp_path), "crash")  # prints the key
        with MockOpenAI(api_key="key-4711") as mock:
            given = {"api_key": "key-4711", "identity": {"note": "with key-4711"}}
            good = run_module("vllm_bench", params(tmp_path, mock.url, **given))
            bad = run_module("vllm_bench", params(tmp_path, mock.url, vllm=vllm, **given))
        assert good["valid"] is True
        files = [path for path in (tmp_path / "results").rglob("*") if path.is_file()]
        assert len(files) == 5
        texts = [gzip.decompress(p.read_bytes()) if p.suffix == ".gz" else p.read_bytes() for p in files]
        for result in (good, bad):
            texts.append(json.dumps({**result, "invocation": None}).encode())
        assert not [text for text in texts if b"key-4711" in text]
