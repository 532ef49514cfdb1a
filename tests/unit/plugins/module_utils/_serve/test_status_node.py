# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node is asked about its instances: state directory, systemd, server."""

from __future__ import annotations

import http.server
import json
import os
import threading
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._gpu.host import Output
from ansible_collections.modelops.vllm.plugins.module_utils._serve import journal, render, status_node
from ansible_collections.modelops.vllm.plugins.module_utils._serve.release import Store

KEY = "key-4711"
NO_URL = "http://127.0.0.1:9"  # nothing listens there
ARGS = 'model: "/srv/models/m"\nserved-model-name: "m"\nport: 8000\nhost: "127.0.0.1"\ntensor-parallel-size: 2\n'


def stage(
    state_dir: Path,
    instance: str,
    url: str,
    *,
    when: str = "2026-11-30T01:02:03Z",
    good: bool = True,
    unit: str = "ExecStart=/opt/vllm/bin/vllm serve --config /etc/vllm/main.yaml",
    args: str = ARGS,
) -> str:
    """A release as the role stages and activates it; its id."""
    files = [("unit.service", unit), ("secrets.env", render.env_file({"VLLM_API_KEY": KEY}))]
    files += [("args.yaml", args)] if args else []
    facts = {
        "instance": instance,
        "service": instance.partition("-")[0],
        "unit": f"vllm-{instance}.service",
        "files": [{"name": name, "dest": f"/none/{name}", "mode": "0600"} for name, _text in files],
        "model": "m",
        "commit": "a" * 40,
        "layout": "tp2",
        "devices": ["0", "1"],
        "port": 8000,
        "question": {"url": url, "model": "m", "smoke": True},
        "note": when,
    }
    store = Store(str(state_dir))
    release, _new = store.stage(dict(files), facts, when)
    store.point(release, "current")
    if good:
        store.mark_proven(release, when)
    return release.id


def systemctl(**states: str) -> t.Callable[[t.Sequence[str]], tuple[int, str, str]]:
    """A run function that answers ``systemctl show``; an instance that is not named has no unit."""

    def run(argv: t.Sequence[str]) -> tuple[int, str, str]:
        blocks = []
        for unit in argv[argv.index("--") + 1 :]:
            active = states.get(unit.removeprefix("vllm-").removesuffix(".service"))
            load = "loaded" if active else "not-found"
            blocks.append(f"Id={unit}\nLoadState={load}\nActiveState={active or 'inactive'}\nUnitFileState=enabled\n")
        return 0, "\n".join(blocks), ""

    return run


def no_smi(_arguments: t.Sequence[str]) -> Output:
    return Output(missing=True)


def look(state_dir: Path, *wanted: str, run: t.Any = None, sample_seconds: float = 0) -> dict[str, t.Any]:
    return status_node.look(
        str(state_dir), wanted, run or systemctl(), no_smi, sample_seconds=sample_seconds, timeout=5
    )


# -------------------------------------------------------------------------------------------------------- the disk


def test_a_bare_node_has_no_instances_and_needs_no_systemd(tmp_path: Path) -> None:
    def run(argv: t.Sequence[str]) -> tuple[int, str, str]:
        raise AssertionError(argv)

    assert look(tmp_path, run=run) == {"instances": [], "gpu_status": "", "findings": []}


def test_a_release_is_told_with_its_links(tmp_path: Path) -> None:
    good = stage(tmp_path, "main", NO_URL)
    newer = stage(tmp_path, "main", NO_URL, when="2026-11-30T02:00:00Z", good=False)
    (row,) = look(tmp_path, run=systemctl(main="failed"))["instances"]
    assert (row["current"], row["last_good"], row["proven"]) == (newer, good, False)
    assert (row["model"], row["commit"], row["layout"], row["devices"]) == ("m", "a" * 40, "tp2", ["0", "1"])
    assert (row["state"], row["health"], row["vram_mib"]) == ("failed", None, None)


def test_what_a_record_lacks_is_in_its_args(tmp_path: Path) -> None:
    stage(tmp_path, "main", NO_URL)
    (known,) = status_node.known_instances(str(tmp_path))
    assert (known.release["host"], known.release["model_dir"]) == ("127.0.0.1", "/srv/models/m")


def test_replicas_and_their_router_are_one_service(tmp_path: Path) -> None:
    stage(tmp_path, "main-r0", NO_URL)
    stage(tmp_path, "main-router", NO_URL, args="")
    found = [(k.name, k.service, k.kind) for k in status_node.known_instances(str(tmp_path))]
    assert found == [("main-r0", "main", "engine"), ("main-router", "main", "router")]


def test_the_name_of_a_service_means_all_its_instances(tmp_path: Path) -> None:
    for name in ("main-r0", "main-r1", "other"):
        stage(tmp_path, name, NO_URL)
    result = look(tmp_path, "main")
    assert [row["instance"] for row in result["instances"]] == ["main-r0", "main-r1"]
    assert "instance-unknown" not in [f["id"] for f in result["findings"]]


def test_a_node_without_a_server_is_not_asked(tmp_path: Path) -> None:
    stage(tmp_path, "main", NO_URL, unit="ExecStart=/opt/vllm/bin/vllm serve --config x --headless --node-rank=1")
    (row,) = look(tmp_path, run=systemctl(main="active"))["instances"]
    assert (row["state"], row["url"], row["health"]) == ("running", None, None)


def test_folders_that_are_no_instances_are_left_out(tmp_path: Path) -> None:
    stage(tmp_path, "main", NO_URL)
    (tmp_path / "instances" / "Not A Name").mkdir()
    (tmp_path / "instances" / "empty").mkdir()
    (tmp_path / "instances" / "file").write_text("")
    assert [k.name for k in status_node.known_instances(str(tmp_path))] == ["main"]


def test_a_node_of_the_first_version(tmp_path: Path) -> None:
    model = tmp_path / "model"
    (model / ".modelops").mkdir(parents=True)
    sha = "b" * 64
    record = dict.fromkeys(("size", "mtime_ns", "ctime_ns", "inode"), 1)
    record |= {"sha256": sha, "blob_id": None, "verified": "sha256"}
    manifest = {
        "schema": 1,
        "repo": "org/m",
        "commit": "c" * 40,
        "revision": "main",
        "selection": {"allow_patterns": [], "ignore_patterns": [], "allow_pickle": False},
        "verified": "sha256",
        "shards": ["a.safetensors"],
        "files": {"a.safetensors": record},
        "stale": {},
        "upstream": [],
    }
    (model / ".modelops" / "manifest.json").write_text(json.dumps(manifest))
    old = tmp_path / "instances" / "main" / "last_good"
    old.mkdir(parents=True)
    (old / "args.yaml").write_text(ARGS.replace("/srv/models/m", str(model)))
    (old / "secrets.env").write_text(render.env_file({"VLLM_API_KEY": KEY}))
    (old / "question.json").write_text(json.dumps({"url": NO_URL, "model": "m", "api_key": KEY, "smoke": False}))
    result = look(tmp_path, run=systemctl(main="inactive"))
    (row,) = result["instances"]
    assert (row["unit"], row["current"], row["last_good"], row["proven"]) == (
        "vllm-main.service",
        None,
        "last_good",
        True,
    )
    assert (row["model"], row["layout"], row["port"], row["url"]) == ("m", "tp2", 8000, NO_URL)
    assert (row["repo_id"], row["commit"]) == ("org/m", "c" * 40)
    assert KEY not in json.dumps(result)


def test_a_damaged_copy_of_the_first_version_is_told(tmp_path: Path) -> None:
    (tmp_path / "instances" / "main" / "last_good").mkdir(parents=True)
    result = look(tmp_path, run=systemctl(main="active"))
    assert (result["instances"][0]["state"], result["instances"][0]["model"]) == ("running", None)
    assert [f["id"] for f in result["findings"]] == ["release-unproven"]


# --------------------------------------------------------------------------------------------------------- the node


def test_an_instance_that_is_not_there_is_named(tmp_path: Path) -> None:
    stage(tmp_path, "main", NO_URL)
    stage(tmp_path, "second", NO_URL)
    result = look(tmp_path, "second", "third", run=systemctl(second="inactive"))
    assert [row["instance"] for row in result["instances"]] == ["second"]
    (unknown,) = [f for f in result["findings"] if f["id"] == "instance-unknown"]
    assert f"There is no instance third in {tmp_path}; there are: main, second." in unknown["message"]


def test_systemd_must_answer(tmp_path: Path) -> None:
    stage(tmp_path, "main", NO_URL)
    with pytest.raises(ModelopsError, match=r"systemctl show vllm-main\.service failed with status 1: no bus"):
        look(tmp_path, run=lambda argv: (1, "", "no bus"))


def test_a_cut_off_switch_is_a_finding_and_a_lock_that_is_held_says_that_it_goes_on(tmp_path: Path) -> None:
    journal.Journal(str(tmp_path)).write(journal.Entry("2026-11-30T01:02:03Z", {"main": "r2"}, phase="starting"))
    assert [f["id"] for f in look(tmp_path)["findings"]] == ["switch-unfinished"]
    with journal.locked(str(tmp_path), {"main": "r2"}, 1, lambda line: None):
        assert [f["id"] for f in look(tmp_path)["findings"]] == ["switch-running"]


def test_a_broken_driver_is_told(tmp_path: Path) -> None:
    stage(tmp_path, "main", NO_URL)
    text = "Failed to initialize NVML: Driver/library version mismatch\n"
    result = status_node.look(
        str(tmp_path),
        [],
        systemctl(main="inactive"),
        lambda arguments: Output(stdout=text, rc=18),
        sample_seconds=0,
        timeout=5,
    )
    assert result["gpu_status"] == "driver_mismatch"
    assert "gpu-driver-mismatch" in [f["id"] for f in result["findings"]]


# -------------------------------------------------------------------------------------------------------- the server


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers as vLLM does: open health and metrics, models with the key only."""

    server: t.Any

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        status, body = self.server.health, ""
        if self.path == "/v1/models":
            allowed = self.headers.get("Authorization") == f"Bearer {KEY}"
            status, body = (200, json.dumps({"data": [{"id": "m"}]})) if allowed else (401, "{}")
        if self.path == "/metrics":
            status, body = 200, f"vllm:generation_tokens_total {self.server.tokens}\nvllm:num_requests_running 2\n"
            self.server.tokens += 500
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def server() -> t.Iterator[t.Any]:
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.asked, running.health, running.tokens = [], 200, 1000  # type: ignore[attr-defined]
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()


def url_of(server: t.Any) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


@pytest.mark.slow
def test_a_server_is_asked_with_the_key_of_the_release(tmp_path: Path, server: t.Any) -> None:
    stage(tmp_path, "main", url_of(server))
    result = look(tmp_path, run=systemctl(main="active"), sample_seconds=0.1)
    (row,) = result["instances"]
    assert (row["state"], row["health"], row["served_names"]) == ("serving", 200, ["m"])
    assert (row["requests_running"], row["requests_waiting"], row["prompt_tokens_per_second"]) == (2, None, None)
    assert 0 < row["tokens_per_second"] <= 5000  # 500 tokens in at least 0.1 s
    assert KEY not in json.dumps(result)


@pytest.mark.slow
def test_one_look_asks_once(tmp_path: Path, server: t.Any) -> None:
    stage(tmp_path, "main", url_of(server))
    (row,) = look(tmp_path, run=systemctl(main="active"))["instances"]
    assert (row["requests_running"], row["tokens_per_second"]) == (2, None)
    assert server.asked == ["/health", "/v1/models", "/metrics"]


@pytest.mark.slow
def test_a_dead_engine_is_asked_for_its_health_only(tmp_path: Path, server: t.Any) -> None:
    server.health = 503
    stage(tmp_path, "main", url_of(server))
    (row,) = look(tmp_path, run=systemctl(main="active"), sample_seconds=5)["instances"]
    assert (row["state"], row["health"], row["served_names"]) == ("unhealthy", 503, [])
    assert server.asked == ["/health"]


@pytest.mark.slow
def test_a_unit_that_is_not_active_is_not_asked(tmp_path: Path, server: t.Any) -> None:
    """Another server may have its port by now."""
    stage(tmp_path, "main", url_of(server))
    (row,) = look(tmp_path, run=systemctl(main="failed"))["instances"]
    assert (row["state"], row["health"]) == ("failed", None)
    assert server.asked == []


def test_a_server_that_loads_does_not_answer(tmp_path: Path) -> None:
    stage(tmp_path, "main", NO_URL)
    (row,) = look(tmp_path, run=systemctl(main="active"))["instances"]
    assert (row["state"], row["health"]) == ("starting", None)


def test_root_is_asked_for_when_the_state_directory_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "listdir", closed)
    with pytest.raises(ModelopsError, match=r"cannot be read: Permission denied\. Run as root"):
        status_node.known_instances(str(tmp_path))
