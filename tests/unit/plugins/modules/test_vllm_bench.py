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
from ansible_collections.modelops.vllm.plugins.module_utils._bench.engine import Client

from tests.support import fake_vllm
from tests.support.mock_openai import MockOpenAI

RunModule = t.Callable[..., dict[str, t.Any]]
BENCH = "ansible_collections.modelops.vllm.plugins.module_utils._bench"
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
        ({"engine": "aiperf", "tokenizer": None}, "aiperf loads a tokenizer"),
        ({"engine": "python", "tokenizer": None}, "vLLM's clients need the option tokenizer"),
        ({"engine": "rust", "endpoint": "chat"}, "take the role of a chat for its first token"),
        ({"progress_interval": -1}, "progress_interval is -1"),
        ({"url": "127.0.0.1:8000"}, "url must be the server's root"),
        ({"metrics_urls": ["http://h:1", "h:2"]}, "metrics_urls must be the server's root"),
        ({"metrics_urls": ["http://h:1", "http://h:1/v1/"]}, "metrics_urls has http://h:1 twice"),
        ({"repeats": 0}, "repeats is 0"),
        ({"gpus": 0}, "gpus is 0"),
        ({"timeout": 0}, "timeout is 0"),
        ({"max_failures": -1}, "max_failures is -1"),
        ({"model": ""}, "model is empty"),
        ({"concurrency": []}, "no point to measure"),
        ({"concurrency": [32]}, "fewer than the 32"),
        ({"output_len": 1}, "output_len is 1"),
        ({"points": [{"concurrency": 4, "rate": 2.0}]}, "has both concurrency and rate"),
        ({"points": [{"input_len": 4}]}, "has neither concurrency nor rate"),
        ({"rates": [-1]}, "rate is -1.0"),
        ({"slo": {"ttft_ms": 0}}, "slo.ttft_ms is 0.0"),
        ({"slo": {"itl_ms": 5}}, "itl_ms"),
        ({"dataset": "file"}, "dataset is file and dataset_file is not set"),
        ({"dataset_file": "/p.jsonl"}, "dataset is random and dataset_file is /p.jsonl"),
        ({"gpu_hour_price": 1.5}, "gpu_hour_price is 1.5 and gpus is None"),
        ({"gpu_hour_price": -1, "gpus": 8}, "gpu_hour_price is -1.0"),
        ({"max_seconds": -1}, "max_seconds is -1"),
        ({"api_key": "sk-1\nsk-2"}, "No header can hold api_key, which has a control character"),
        ({"api_key": "sk-ü"}, "No header can hold api_key, which has a control character or one that is not ASCII"),
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
    @pytest.mark.case(
        "all-fail-exit-0", "error-event-counted-success", "truncated-stream-counted-success", "ignore-eos-missing"
    )
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

    @pytest.mark.case("all-fail-exit-0")
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
    @pytest.mark.case("warmup-uses-first-prompt")
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

    def test_the_counters_of_replicas_behind_a_router_are_added_up(self, run_module: RunModule, tmp_path: Path) -> None:
        with MockOpenAI(metrics=False) as router, MockOpenAI() as busy, MockOpenAI() as idle:
            # One replica has all the work.
            busy.counters = router.counters
            urls = [busy.url, f"{idle.url}/v1"]
            result = run_module("vllm_bench", params(tmp_path, router.url, metrics_urls=urls))
            (point,) = result["points"]
            # The other one has as much to do, for somebody else.
            idle.counters = router.counters
            doubled = run_module("vllm_bench", params(tmp_path, router.url, metrics_urls=urls))
            lacking = run_module(
                "vllm_bench", params(tmp_path, router.url, metrics_urls=[idle.url, "http://127.0.0.1:9"])
            )
        assert result["valid"] is True
        assert (point["server"]["finished"], point["server"]["generation_tokens"]) == (16, 320)
        assert "server-counters-missing" not in ids(result["findings"])
        assert "other-traffic" in ids(doubled["findings"], "error")
        assert "server-counters-missing" in ids(lacking["findings"], "warning")

    @pytest.mark.case("chunk-is-not-token-coalesced", "first-chunk-bundles-tokens")
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
        monkeypatch.setattr(f"{BENCH}.measure._IDLE_TIMEOUT_S", 0.3)
        with MockOpenAI(busy=2) as mock:
            result = run_module("vllm_bench", params(tmp_path, mock.url))
            assert len(mock.counters.prompts) == BEFORE_LOAD
        assert result["valid"] is False
        assert ids(result["findings"], "error") == {"server-busy"}

    @pytest.mark.case("range-ratio-context-overflow")
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

    @pytest.mark.case("readiness-default-off")
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
        # Each run: points, definitions and the client's log; the good one its raw result.
        assert len(files) == 7
        texts = [gzip.decompress(p.read_bytes()) if p.suffix == ".gz" else p.read_bytes() for p in files]
        for result in (good, bad):
            texts.append(json.dumps({**result, "invocation": None}).encode())
        assert not [text for text in texts if b"key-4711" in text]

    @pytest.mark.case("request-rate-burst", "client-queue-excluded")
    def test_a_rate_is_offered_whatever_the_server_does(self, run_module: RunModule, tmp_path: Path) -> None:
        given = params(tmp_path, concurrency=[], rates=[50], num_prompts=60, slo={"e2e_ms": 10000, "ttft_ms": 0.001})
        with MockOpenAI(first_token_s=0.1, token_s=0.001) as mock:
            result = run_module("vllm_bench", {**given, "url": mock.url})
        assert result["valid"] is True
        (point,) = result["points"]
        assert point["point"]["id"] == "q50-i16-o20-n60"
        assert (point["point"]["rate"], point["point"]["concurrency"]) == (50.0, None)
        assert 20 < point["metrics"]["arrivals_per_s"] < 80
        assert point["metrics"]["peak_in_flight"] > 1
        assert "--max-concurrency" not in point["client"]["arguments"]
        assert point["metrics"]["goodput"]["slo"] == {"e2e_ms": 10000.0, "ttft_ms": 0.001}
        assert point["metrics"]["goodput"]["share"] in (0.0, None)

    def test_verses_are_prompts_of_about_the_asked_length(self, run_module: RunModule, tmp_path: Path) -> None:
        with MockOpenAI() as mock:
            given = params(tmp_path, mock.url, dataset="text", input_len=200, repeats=2, gpus=2, gpu_hour_price=1.5)
            result = run_module("vllm_bench", given)
            prompts = mock.counters.prompts
        assert result["valid"] is True
        # The mock counts a character as a token.
        assert {len(prompt) for prompt in prompts[1:]} == {200}
        assert len(set(prompts)) == len(prompts) == 1 + 2 * (4 + 16)
        point = result["points"][0]
        assert point["identity"]["load"]["dataset"] == "verses of the collection"
        assert point["cost"]["per_million_output_tokens"] > 0
        assert point["energy"]["valid"] is False
        assert point["energy"]["reason"]

    def test_a_warm_up_of_a_file_is_no_longer_than_the_context(self, run_module: RunModule, tmp_path: Path) -> None:
        # As many letters as the file's texts have characters would be more tokens than fit.
        path = tmp_path / "p.jsonl"
        path.write_text("".join(json.dumps({"prompt": f"question {n}" * 60}) + "\n" for n in range(16)))
        with MockOpenAI(max_model_len=300) as mock:
            result = run_module("vllm_bench", params(tmp_path, mock.url, dataset="file", dataset_file=str(path)))
            warm_up = mock.counters.prompts[1:5]
        assert result["complete"] is True
        # The mock takes a character for a token: 0.9 of what 20 tokens of output leave.
        assert {(len(prompt), prompt.startswith("Letter ")) for prompt in warm_up} == {(252, True)}

    def test_prompts_of_a_file_are_sent_once(self, run_module: RunModule, tmp_path: Path) -> None:
        path = tmp_path / "p.jsonl"
        path.write_text("".join(json.dumps({"prompt": f"question {n}"}) + "\n" for n in range(32)))
        with MockOpenAI() as mock:
            given = params(tmp_path, mock.url, dataset="file", dataset_file=str(path), repeats=2)
            result = run_module("vllm_bench", given)
            asked = [prompt for prompt in mock.counters.prompts if prompt.startswith("question")]
            short = run_module("vllm_bench", {**given, "repeats": 3})
        assert result["valid"] is True
        assert len(set(asked)) == len(asked) == 32
        assert result["points"][0]["point"]["id"] == "c4-o20-n16"
        assert short["failed"] is True
        assert "need 48 prompts, but the dataset has 32" in short["msg"]

    def test_an_interrupted_run_is_continued_point_by_point(self, run_module: RunModule, tmp_path: Path) -> None:
        # The second measurement fails, as if the server had been restarted in the middle.
        with MockOpenAI(fault="http_500", healthy=1 + 20 + 4) as mock:
            given = params(tmp_path, mock.url, repeats=2, resume=True)
            first = run_module("vllm_bench", given)
            assert (first["valid"], first["complete"], first["resumed"]) == (False, True, False)
            points_file = Path(first["results_file"])
            with points_file.open("a") as f:
                f.write('{"schema_version": 1, "poi')  # torn when the run was killed
            mock.behaviour.fault = ""
            sent = len(mock.counters.prompts)
            second = run_module("vllm_bench", given)
            assert len(mock.counters.prompts) == sent + 1 + 20
            third = run_module("vllm_bench", given)
            prompts = mock.counters.prompts
        assert (second["valid"], second["complete"], second["resumed"]) == (True, True, True)
        assert second["results_file"] == first["results_file"]
        assert [p["repeat"] for p in second["points"]] == [1, 2]
        assert second["points"][0] == first["points"][0]
        assert second["points"][1]["seed"] != first["points"][1]["seed"]
        assert len(points_file.read_text().splitlines()) == 3
        assert len(set(prompts)) == len(prompts)
        # Nothing is missing any more: a new run.
        assert (third["resumed"], third["results_file"] == first["results_file"]) == (False, False)
        report = run_module("bench_report", {"results": first["results_file"], "formats": ["csv"]})
        assert report["verdict"] == "recorded"
        assert len(Path(report["files"][0]).read_text().splitlines()) == 3

    @pytest.mark.parametrize("other", [{"identity": {"layout": "tp4"}}, {"slo": {"e2e_ms": 5.0}}, {"currency": "EUR"}])
    def test_another_identity_is_not_continued_nor_are_other_settings(
        self, run_module: RunModule, tmp_path: Path, other: dict[str, t.Any]
    ) -> None:
        with MockOpenAI() as mock:
            first = run_module("vllm_bench", params(tmp_path, mock.url, identity={"layout": "tp2"}))
            given = params(tmp_path, mock.url, **{"identity": {"layout": "tp2"}, **other}, repeats=2, resume=True)
            second = run_module("vllm_bench", given)
        assert first["results_file"] != second["results_file"]
        assert second["resumed"] is False

    def test_a_run_ends_in_time_and_tells_what_is_missing(self, run_module: RunModule, tmp_path: Path) -> None:
        # The second load hangs and would be waited for up to the timeout: the end of the run ends it.
        with MockOpenAI(fault="hang", healthy=1 + 20 + 4) as mock:
            given = params(tmp_path, mock.url, repeats=2, max_seconds=6)
            result = run_module("vllm_bench", given)
        assert (result["complete"], result["valid"]) == (False, True)
        assert [p["repeat"] for p in result["points"]] == [1]
        (found,) = [f for f in result["findings"] if f["id"] == "time-bound-reached"]
        assert found["severity"] == "warning"
        assert found["numbers"] == {"unmeasured": 1, "max_seconds": 6, "points": []}

    def test_a_point_that_the_time_never_reached_is_an_error(self, run_module: RunModule, tmp_path: Path) -> None:
        with MockOpenAI(fault="hang", healthy=1 + 2 + 8) as mock:
            given = params(tmp_path, mock.url, concurrency=[2, 4], num_prompts=8, max_seconds=6)
            result = run_module("vllm_bench", given)
            # The second run's readiness alone takes longer than it may.
            mock.behaviour.fault, mock.behaviour.first_token_s = "", 1.2
            nothing = run_module("vllm_bench", {**given, "max_seconds": 1})
        assert nothing["failed"] is True
        assert "did not last for one measurement" in nothing["msg"]
        assert result["valid"] is False
        assert [p["point"]["concurrency"] for p in result["points"]] == [2]
        (found,) = [f for f in result["findings"] if f["id"] == "time-bound-reached"]
        assert (found["severity"], found["numbers"]["points"]) == ("error", ["c4-i16-o20-n8"])

    def test_a_server_that_hangs_costs_one_timeout(self, run_module: RunModule, tmp_path: Path) -> None:
        with MockOpenAI(fault="hang", healthy=1) as mock:
            given = params(tmp_path, mock.url, concurrency=[2, 4], repeats=2, timeout=1)
            result = run_module("vllm_bench", given)
            # Readiness, the warm-up of the first point, and the question whether it is alive.
            assert len(mock.counters.prompts) == 1 + 2 + 1
        assert (result["valid"], result["complete"]) == (False, False)
        (point,) = result["points"]
        assert ids(point["findings"]) == {"warm-up-failed"}
        assert point["findings"][0]["numbers"]["kind"] == "no-answer"
        (found,) = [f for f in result["findings"] if f["id"] == "server-gone"]
        assert (found["severity"], found["numbers"]) == ("error", {"unmeasured": 3, "points": ["c4-i16-o20-n16"]})
        assert "since c2-i16-o20-n16-r1" in found["message"]

    def test_one_wave_without_an_answer_does_not_end_the_run(self, run_module: RunModule, tmp_path: Path) -> None:
        # Only the first of every three requests hangs: the server lives.
        with MockOpenAI(fault="hang", every=3, healthy=0) as mock:
            given = params(tmp_path, mock.url, concurrency=[2, 4], num_prompts=8, timeout=1)
            result = run_module("vllm_bench", given)
        assert "server-gone" not in ids(result["findings"])
        assert [p["point"]["concurrency"] for p in result["points"]] == [2, 4]
        assert "warm-up-failed" in ids(result["points"][0]["findings"])
        assert result["complete"] is True

    @pytest.mark.case("definition-tpot")
    def test_the_results_say_what_their_figures_mean(self, run_module: RunModule, tmp_path: Path) -> None:
        with MockOpenAI() as mock:
            result = run_module("vllm_bench", params(tmp_path, mock.url))
        definitions = json.loads((Path(result["results_file"]).parent / "definitions.json").read_text())
        assert "(output tokens - 1)" in definitions["tpot_ms"]

    @pytest.mark.case("moe-random-routing")
    def test_dummy_weights_are_told_with_the_run(self, run_module: RunModule, tmp_path: Path) -> None:
        with MockOpenAI() as mock:
            given = params(tmp_path, mock.url, identity={"vllm_args": {"load-format": "dummy"}})
            result = run_module("vllm_bench", given)
        assert "dummy-weights" in ids(result["findings"], "warning")
        assert "dummy-weights" in ids(result["points"][0]["run_findings"])

    @pytest.mark.case("client-gil-ttft")
    def test_the_client_is_checked_when_a_rate_is_expected(self, run_module: RunModule, tmp_path: Path) -> None:
        with MockOpenAI() as mock:
            result = run_module("vllm_bench", params(tmp_path, mock.url, client_check_rate=100))
            # Nothing of the check reaches the server.
            assert len(mock.counters.prompts) == BEFORE_LOAD + 16
        assert len(ids(result["findings"]) & {"client-checked", "client-too-slow"}) == 1

    def test_a_client_without_pandas_reads_no_prompts(
        self, run_module: RunModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        python = Client("python", str(tmp_path / "vllm"), "0.32.0", reads_files=False)
        monkeypatch.setattr(f"{BENCH}.engine.find_client", lambda *_arguments, **_options: python)
        with MockOpenAI() as mock:
            refused = run_module("vllm_bench", params(tmp_path, mock.url, dataset="text"))
            assert run_module("vllm_bench", params(tmp_path, mock.url))["valid"] is True
        assert refused["failed"] is True
        assert "dataset is text, but vLLM's Python client reads prompts with pandas" in refused["msg"]


@pytest.mark.slow
class TestBuiltin:
    """The client for hosts without vLLM: there is none in these tests."""

    def params(self, tmp_path: Path, url: str, **changes: t.Any) -> dict[str, t.Any]:
        return {**params(tmp_path, url), "tokenizer": None, "engine": "builtin", **changes}

    def test_prompts_are_token_ids_of_the_server_and_as_long_as_asked(
        self, run_module: RunModule, tmp_path: Path
    ) -> None:
        with MockOpenAI(first_token_s=0.02, token_s=0.005, tokenize=True, api_key="key-4711") as mock:
            result = run_module("vllm_bench", self.params(tmp_path, mock.url, api_key="key-4711"))
            prompts = mock.counters.prompts
        assert (result["valid"], result["engine"], result["vllm_version"]) == (True, "builtin", "")
        assert result["engine_version"]
        (point,) = result["points"]
        assert point["metrics"]["input_len"] == {"min": 16, "mean": 16.0, "max": 16}
        assert point["metrics"]["output_tokens"] == 320
        assert point["metrics"]["peak_in_flight"] == 4
        assert point["identity"]["client"] == {
            "engine": "builtin",
            "version": result["engine_version"],
            "place": "loopback",
        }
        assert len(set(prompts)) == len(prompts)
        assert [type(json.loads(prompt)) for prompt in prompts[BEFORE_LOAD:]] == [list] * 16
        stored = [path.read_bytes() for path in (tmp_path / "results").rglob("*") if path.is_file()]
        assert not [data for data in stored if b"key-4711" in data or b"key-4711" in _gunzip(data)]

    @pytest.mark.parametrize(
        ("fault", "kind"),
        [
            ("http_500", "http-error"),
            ("error_event", "error-event"),
            ("cut", "stream-cut"),
            ("early_stop", "output-length"),
            ("no_usage", "no-usage"),
            ("reset", "stream-cut"),
        ],
    )
    @pytest.mark.case(
        "all-fail-exit-0", "error-event-counted-success", "truncated-stream-counted-success", "ignore-eos-missing"
    )
    def test_a_fault_is_named_whether_or_not_the_server_counts(
        self, run_module: RunModule, tmp_path: Path, fault: str, kind: str
    ) -> None:
        with MockOpenAI(fault=fault, every=2, healthy=BEFORE_LOAD, metrics=False) as mock:
            result = run_module("vllm_bench", self.params(tmp_path, mock.url))
        assert result["valid"] is False
        (found,) = [f for f in result["findings"] if f["id"] == "requests-failed"]
        assert found["numbers"]["kinds"] == {kind: 8}
        assert result["points"][0]["metrics"]["failed"] == 8

    @pytest.mark.case("sse-comment-glue")
    def test_keep_alives_lose_no_token(self, run_module: RunModule, tmp_path: Path) -> None:
        with MockOpenAI(fault="ping", token_s=0.002) as mock:
            result = run_module("vllm_bench", self.params(tmp_path, mock.url))
        assert result["valid"] is True
        assert result["points"][0]["metrics"]["tokens_per_event"] == 1.0

    @pytest.mark.case("role-chunk-as-first-token", "reasoning-not-counted")
    def test_a_chat_has_the_time_to_its_first_token_and_to_its_first_output(
        self, run_module: RunModule, tmp_path: Path
    ) -> None:
        with MockOpenAI(role_early=True, reasoning=10, first_token_s=0.2, token_s=0.01) as mock:
            result = run_module("vllm_bench", self.params(tmp_path, mock.url, endpoint="chat", input_len=48))
        assert result["valid"] is True
        (point,) = result["points"]
        figures = point["metrics"]
        # The role came at once, reasoning after 200 ms, the first content ten tokens later.
        # On a host that is too busy for the client, both are withheld and told instead.
        withheld = "token-times-withheld" in ids(point["findings"])
        assert (figures["ttft_ms"]["min"] is None) is (figures["ttfo_ms"]["min"] is None) is withheld
        assert withheld or figures["ttft_ms"]["min"] >= 200
        assert withheld or figures["ttfo_ms"]["min"] >= figures["ttft_ms"]["min"] + 100
        assert figures["tokens_per_event"] == 1.0
        assert figures["input_len"]["mean"] == 48
        assert point["identity"]["load"]["api"] == "/v1/chat/completions, streamed"

    def test_an_open_loop_keeps_the_rate(self, run_module: RunModule, tmp_path: Path) -> None:
        given = {"concurrency": [], "rates": [40], "num_prompts": 40}
        with MockOpenAI(token_s=0.001) as mock:
            result = run_module("vllm_bench", self.params(tmp_path, mock.url, **given))
        assert result["valid"] is True
        assert "rate-not-reached" not in ids(result["findings"])
        assert result["points"][0]["metrics"]["client_queue_ms"]["n"] == 40

    def test_prompts_of_a_file_that_were_sent_before_are_not_found_in_the_cache(
        self, run_module: RunModule, tmp_path: Path
    ) -> None:
        path = tmp_path / "p.jsonl"
        path.write_text("".join(json.dumps({"prompt": f"question {n}"}) + "\n" for n in range(32)))
        with MockOpenAI() as mock:
            given = self.params(tmp_path, mock.url, dataset="file", dataset_file=str(path), repeats=2)
            runs = [run_module("vllm_bench", given) for _run in range(2)]
            sent = list(zip(mock.counters.prompts, mock.counters.salts, strict=True))
        assert [run["valid"] for run in runs] == [True, True]
        asked = [(prompt, salt) for prompt, salt in sent if prompt.startswith("question")]
        # The same 32 prompts twice, and a salt for each of the four measurements.
        assert len({prompt for prompt, _salt in asked}) == 32
        assert len(set(asked)) == len(asked) == 64
        assert len({salt for _prompt, salt in asked} - {""}) == 4
        # Prompts that nobody has sent need none.
        assert {salt for prompt, salt in sent if not prompt.startswith("question")} == {""}

    @pytest.mark.parametrize("endpoint", ["completions", "chat"])
    def test_auto_takes_it_where_there_is_no_vllm_and_says_so(
        self, run_module: RunModule, tmp_path: Path, endpoint: str
    ) -> None:
        with MockOpenAI() as mock:
            given = self.params(tmp_path, mock.url, engine="auto", endpoint=endpoint)
            result = run_module("vllm_bench", given)
        assert (result["valid"], result["engine"]) == (True, "builtin")
        (found,) = [f for f in result["findings"] if f["id"] == "engine-builtin"]
        assert ("role of a chat" if endpoint == "chat" else "need the option tokenizer") in found["message"]

    def test_texts_and_a_resumed_run(self, run_module: RunModule, tmp_path: Path) -> None:
        with MockOpenAI() as mock:
            given = self.params(tmp_path, mock.url, dataset="text", repeats=2, resume=True)
            first = run_module("vllm_bench", given)
            lines = Path(first["results_file"]).read_text().splitlines()
            Path(first["results_file"]).write_text(lines[0] + "\n")
            second = run_module("vllm_bench", given)
        assert (first["resumed"], second["resumed"], second["complete"]) == (False, True, True)
        assert [p["repeat"] for p in second["points"]] == [1, 2]


def _gunzip(data: bytes) -> bytes:
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
