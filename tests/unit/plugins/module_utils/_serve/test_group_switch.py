# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The switch of a group: what each of two nodes serves afterwards, whatever fails on one of them.

The nodes are simulated and switch in threads of their own; releases are real, and so are their boards.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._findings import Finding, error
from ansible_collections.modelops.vllm.plugins.module_utils._serve import group as group_module
from ansible_collections.modelops.vllm.plugins.module_utils._serve import group_switch as module
from ansible_collections.modelops.vllm.plugins.module_utils._serve.board import Board, Group, Member, State, fetch
from ansible_collections.modelops.vllm.plugins.module_utils._serve.causes import Cause
from ansible_collections.modelops.vllm.plugins.module_utils._serve.group_switch import (
    GroupSwitch,
    part_of,
    stage,
    watch_of,
)
from ansible_collections.modelops.vllm.plugins.module_utils._serve.probe import Answer
from ansible_collections.modelops.vllm.plugins.module_utils._serve.ready import Outcome
from ansible_collections.modelops.vllm.plugins.module_utils._serve.release import Release, Store
from ansible_collections.modelops.vllm.plugins.module_utils._serve.steps import Limits, SwitchError
from ansible_collections.modelops.vllm.plugins.module_utils._serve.systemd import UnitState

UNIT, WATCH = "vllm-main.service", "vllm-main-watch.service"
DEAD = UnitState("loaded", "inactive", "dead", "success", 0, "none", 0, "")
OOM = Cause("gpu-out-of-memory", "CUDA out of memory near s3cr3t-key and key-of-before", "Use less.")
MEMBERS = (Member("head", "127.0.0.1"), Member("worker", "127.0.0.2"))


class FakeNode:
    """A node whose units start at once. ``broken`` are the ids of releases that do not come up."""

    def __init__(self, store: Store, name: str, log: list[str]) -> None:
        self.store = store
        self.name = name
        self.log = log
        self.states: dict[str, UnitState] = {}
        self.boot: set[str] = set()
        self.broken: set[str] = set()
        self.findings: list[Finding] = []
        self.starts = 0
        self.stopped: list[str] = []
        self.asked = 0
        self.tail: list[str] = []

    def now(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        pass

    def date(self) -> str:
        return "2026-11-30T10:00:00Z"

    def state(self, unit: str) -> UnitState:
        return self.states.get(unit, DEAD)

    def runs(self, unit: str) -> bool:
        return self.state(unit).active != "inactive"

    def enabled(self, unit: str) -> bool:
        return unit in self.boot

    def enable(self, unit: str) -> None:
        self.boot.add(unit)

    def forget(self, unit: str) -> None:
        pass

    def disable(self, unit: str) -> None:
        self.boot.discard(unit)

    def container_findings(self, release: Release) -> list[Finding]:
        return []

    def arm(self, way_back: str) -> None:
        pass

    def disarm(self) -> None:
        pass

    def reload(self) -> None:
        pass

    def start(self, unit: str) -> str:
        self.starts += 1
        self.states[unit] = replace(DEAD, active="active", sub="running", invocation=f"start-{self.starts}")
        return ""

    def stop(self, unit: str) -> None:
        self.states[unit] = DEAD
        self.stopped.append(unit)

    def ask_to_stop(self, unit: str) -> None:
        self.log.append(f"{self.name} stops")
        threading.Event().wait(0.2)
        # First the note: as soon as the state can be seen the other node goes on.
        self.log.append(f"{self.name} has stopped")
        self.stop(unit)

    def signal(self, unit: str, name: str) -> None:
        self.states[unit] = DEAD

    def port_findings(self, release: Release, ours: t.Collection[str]) -> list[Finding]:
        return self.findings

    def disk_findings(self, state_dir: str) -> list[Finding]:
        return []

    def gpu_findings(self, releases: t.Sequence[Release], ours: t.Collection[str]) -> list[Finding]:
        return []

    def gpu_holders(self, releases: t.Sequence[Release], ours: t.Collection[str], *, room: bool) -> list[str]:
        return []

    def answers(self, release: Release) -> bool:
        return self.runs(release.unit)

    def ask(self, _left: float) -> Answer:
        self.asked += 1
        return Answer("ready")

    def prove(
        self,
        release: Release,
        timeout: float,
        cancelled: t.Callable[[], bool],
        tell: t.Callable[[str], None],
        *,
        settle: t.Callable[[t.Callable[[float], Answer], float], Answer] = lambda ask, left: ask(left),
    ) -> Outcome:
        """Ask until there is an answer, as the real one does."""
        for _look in range(2000):
            if release.id in self.broken:
                return Outcome(False, 1.0, OOM)
            answer = settle(self.ask, timeout)
            if answer.stage == "ready":
                return Outcome(True, 1.0)
            if answer.cause is not None:
                return Outcome(False, 1.0, answer.cause, log_tail=self.tail)
            threading.Event().wait(0.01)
        return Outcome(False, 20.0, Cause("timeout", "", ""))


class Host:
    """One node of the pair with its releases, and its switch in a thread."""

    def __init__(self, root: Path, rank: int, port: int, log: list[str]) -> None:
        self.root = root
        self.group = Group("pair/main", MEMBERS, rank, port)
        (root / "state").mkdir(parents=True)
        self.store = Store(str(root / "state"))
        self.node = FakeNode(self.store, MEMBERS[rank].host, log)
        self.failure: BaseException | None = None
        self.count = 0

    def release(self, name: str = "a", *, alone: bool = False, key: str = "s3cr3t-key") -> Release:
        self.count += 1
        params = {
            "group": {} if alone else self.group.as_dict(),
            "instance": "main",
            "state_dir": self.store.state_dir,
            "config_dir": str(self.root / "etc"),
            "args_text": name,
            "vllm_version": "0.32.0",
            "commit": "",
            "watch_text": "[Unit]\n",
        }
        staged = stage(params, UNIT)
        texts = {"unit.service": f"{name} of rank {self.group.rank}\n", "secrets.env": f'VLLM_API_KEY="{key}"\n'}
        files = [{"name": n, "dest": str(self.root / n), "mode": "0600"} for n in texts]
        files += [{**f, "dest": str(self.root / f["name"])} for f in staged.files]
        facts = {"instance": "main", "unit": UNIT, "files": files, "question": {}, **staged.record}
        when = f"2026-11-30T10:00:{self.count:02d}Z"
        release, _new = self.store.stage({**texts, **staged.contents}, facts, when)
        return release

    def run(self, release: Release, *, together: bool = False) -> None:
        work = GroupSwitch(t.cast("t.Any", self.node), self.store, Limits(600, 120, 60), lambda _line: None)
        try:
            work.run([release], together=together)
        except Exception as e:
            self.failure = e

    @property
    def serves(self) -> str:
        current = self.store.linked("main", "current")
        if current is None or not self.node.runs(UNIT) or current.id in self.node.broken:
            return ""
        return current.read("unit.service").split()[0]

    @property
    def watched(self) -> bool:
        return self.node.runs(WATCH)

    def memory(self) -> dict[str, t.Any]:
        return json.loads((self.root / "state/instances/main/watch.json").read_text())


class Pair:
    def __init__(self, root: Path) -> None:
        with contextlib.closing(socket.socket()) as sock:
            sock.bind(("127.0.0.1", 0))
            port = sock.getsockname()[1]
        self.log: list[str] = []
        self.hosts = [Host(root / m.host, rank, port, self.log) for rank, m in enumerate(MEMBERS)]
        self.head, self.worker = self.hosts

    def switch(self, *releases: Release, together: bool = False) -> list[str]:
        """Both at once; the ids of their causes, or the messages of what was not even begun."""
        threads = []
        for host, release in zip(self.hosts, releases, strict=True):
            host.failure = None
            threads.append(threading.Thread(target=host.run, args=(release,), kwargs={"together": together}))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return [self.tell(host.failure) for host in self.hosts]

    @staticmethod
    def tell(failure: BaseException | None) -> str:
        return "" if failure is None else failure.cause.id if isinstance(failure, SwitchError) else str(failure)

    def deploy(self, name: str) -> list[str]:
        return self.switch(*(host.release(name) for host in self.hosts))

    @property
    def serves(self) -> list[str]:
        return [host.serves for host in self.hosts]

    @property
    def watched(self) -> list[bool]:
        return [host.watched for host in self.hosts]


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    monkeypatch.setattr(group_module, "_INTERVAL", 0.02)
    monkeypatch.setattr(group_module, "LINGER_SECONDS", 4.0)
    monkeypatch.setattr(group_module, "_GONE_SECONDS", 2.5)
    monkeypatch.setattr(module, "MEET_SECONDS", 6.0)
    return Pair(tmp_path)


@pytest.mark.slow
def test_both_serve_start_at_boot_and_are_watched_from_the_same_epoch(pair: Pair) -> None:
    assert pair.deploy("a") == ["", ""]
    assert pair.serves == ["a", "a"]
    # The head once, however long it waits for the others; the worker serves no HTTP.
    assert [host.node.asked for host in pair.hosts] == [1, 0]
    for host in pair.hosts:
        assert host.node.boot == {UNIT, WATCH}
        assert host.watched
        memory = host.memory()
        assert (memory["epoch"], memory["invocation"]) == (0, "start-1")
    assert pair.head.memory()["digest"] == pair.worker.memory()["digest"]


@pytest.mark.slow
def test_the_head_stops_before_its_worker(pair: Pair) -> None:
    pair.deploy("a")
    assert pair.deploy("b") == ["", ""]
    assert pair.log == ["head stops", "head has stopped", "worker stops", "worker has stopped"]


@pytest.mark.slow
def test_a_second_run_meets_nobody_and_leaves_the_watches_alone(pair: Pair) -> None:
    pair.deploy("a")
    for host in pair.hosts:
        host.node.stopped.clear()
    assert pair.switch(*(host.release("a") for host in pair.hosts)) == ["", ""]
    assert [host.node.stopped for host in pair.hosts] == [[], []]
    assert [host.node.starts for host in pair.hosts] == [2, 2]


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_node_that_fails_takes_both_back(pair: Pair, rank: int) -> None:
    pair.deploy("a")
    releases = [host.release("b") for host in pair.hosts]
    pair.hosts[rank].node.broken = {releases[rank].id}
    causes = pair.switch(*releases)
    assert causes[rank] == "gpu-out-of-memory"
    assert causes[1 - rank] in ("peer-failed", "peer-went-back")
    failure = pair.hosts[1 - rank].failure
    assert isinstance(failure, SwitchError)
    assert f"rank {rank} ({MEMBERS[rank].host}) failed: CUDA out of memory near ********" in failure.cause.line
    assert pair.serves == ["a", "a"]
    assert pair.watched == [True, True]
    for host in pair.hosts:
        assert isinstance(host.failure, SwitchError)
        assert host.failure.nothing_serves == ""
        good = host.store.linked("main", "last_good")
        assert good is not None
        assert good.read("unit.service").startswith("a ")


@pytest.mark.slow
@pytest.mark.parametrize("step", ["port_findings", "reload"])
def test_an_error_that_nobody_has_foreseen_is_told_to_the_other_node(
    pair: Pair, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_off(*_args: object) -> t.NoReturn:
        raise ValueError("nobody has thought of this")

    pair.deploy("a")
    monkeypatch.setattr(pair.worker.node, step, break_off)
    pair.deploy("b")
    failure = pair.head.failure
    assert failure is not None
    line = failure.cause.line if isinstance(failure, SwitchError) else str(failure)
    assert "rank 1 (worker) failed: ValueError: nobody has thought of this" in line


@pytest.mark.slow
def test_a_node_whose_log_says_why_is_not_silenced_by_another_that_was_faster(pair: Pair) -> None:
    pair.deploy("a")
    releases = [host.release("b") for host in pair.hosts]
    pair.head.node.broken = {releases[0].id}
    pair.worker.node.tail = ["FileNotFoundError: No such file or directory: /m/model-00002-of-00004.safetensors"]
    pair.switch(*releases)
    for host in pair.hosts:
        assert isinstance(host.failure, SwitchError)
        assert "model-00002-of-00004.safetensors" in host.failure.cause.line
    assert pair.serves == ["a", "a"]


@pytest.mark.slow
def test_a_first_release_that_fails_on_one_node_is_stopped_on_both(pair: Pair) -> None:
    releases = [host.release("a") for host in pair.hosts]
    pair.worker.node.broken = {releases[1].id}
    assert pair.switch(*releases)[1] == "gpu-out-of-memory"
    assert pair.serves == ["", ""]
    assert pair.watched == [False, False]
    assert [host.node.boot for host in pair.hosts] == [set(), set()]


@pytest.mark.slow
def test_a_node_that_has_nothing_to_go_back_to_does_not_keep_the_other_waiting(pair: Pair) -> None:
    pair.deploy("a")
    for link in ("last_good", "current"):
        (pair.worker.root / "state/instances/main" / link).unlink()
    pair.worker.node.stop(UNIT)
    for file in pair.worker.store.releases("main")[0].files:
        Path(file["dest"]).unlink()
    releases = [host.release("b") for host in pair.hosts]
    pair.worker.node.broken = {releases[1].id}
    pair.switch(*releases)
    assert isinstance(pair.head.failure, SwitchError)
    assert "group-mismatch" in pair.head.failure.nothing_serves or "peer-failed" in pair.head.failure.nothing_serves


def test_a_node_that_may_not_switch_is_never_seen_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for a moment: another node could see that moment, and begin to stop what it serves."""
    seen = []
    open_board = Board.open

    def noting(board: Board) -> None:
        open_board(board)
        seen.append(fetch("127.0.0.2", board._group.port))

    monkeypatch.setattr(Board, "open", noting)
    monkeypatch.setattr(group_module, "LINGER_SECONDS", 0.0)
    worker = Pair(tmp_path).worker
    worker.node.findings = [error("port-taken", "nginx has the port.", "Stop nginx.")]
    worker.run(worker.release())
    assert [(state.phase, state.cause["id"]) for state in seen if state is not None] == [("failed", "check-failed")]
    assert worker.node.stopped == [WATCH]


@pytest.mark.slow
def test_what_one_node_finds_out_before_is_told_to_the_other_and_nothing_is_stopped(pair: Pair) -> None:
    pair.deploy("a")
    pair.worker.node.findings = [error("port-taken", "nginx has the port.", "Stop nginx.")]
    causes = pair.deploy("b")
    assert "nginx has the port." in causes[1]
    assert "rank 1 (worker) failed" in causes[0]
    assert "nginx has the port." in causes[0]
    assert pair.serves == ["a", "a"]
    assert pair.watched == [True, True]
    assert all(UNIT not in host.node.stopped for host in pair.hosts)


@pytest.mark.slow
def test_nodes_with_other_args_do_not_start(pair: Pair) -> None:
    pair.deploy("a")
    causes = pair.switch(pair.head.release("b"), pair.worker.release("c"))
    assert all("has the digest" in cause for cause in causes)
    assert pair.serves == ["a", "a"]


@pytest.mark.slow
def test_a_node_that_comes_alone_touches_nothing(pair: Pair) -> None:
    pair.deploy("a")
    pair.head.run(pair.head.release("b"))
    assert "Nothing was stopped. Not all nodes came to the switch within 6 s: rank 1 (worker)" in str(pair.head.failure)
    assert pair.serves == ["a", "a"]
    assert pair.watched == [True, True]


@pytest.mark.slow
def test_one_that_has_to_switch_takes_the_other_along(pair: Pair) -> None:
    pair.deploy("a")
    pair.worker.node.stop(UNIT)
    assert pair.switch(*(host.release("a") for host in pair.hosts), together=True) == ["", ""]
    assert pair.serves == ["a", "a"]
    assert UNIT in pair.head.node.stopped


@pytest.mark.slow
def test_a_release_of_one_node_ends_the_watch(pair: Pair) -> None:
    pair.deploy("a")
    pair.head.run(pair.head.release("b", alone=True))
    assert pair.head.failure is None
    assert pair.head.serves == "b"
    assert not pair.head.watched
    assert pair.head.node.boot == {UNIT}
    assert not (pair.head.root / "watch.service").exists()


@contextlib.contextmanager
def watching(host: Host, phase: str = "up", digest: str = "") -> t.Iterator[None]:
    """The board of the watch, until that is stopped."""
    current = host.store.linked("main", "current")
    part = part_of(current) if current is not None else None
    assert part is not None
    board = Board(part.group, State("pair/main", part.group.rank, digest or part.digest, "watch", "w", phase), 2.0)
    stop = host.node.stop

    def stopping(unit: str) -> None:
        stop(unit)
        if unit == WATCH:
            board.close()

    host.node.stop = stopping  # type: ignore[method-assign]
    board.open()
    yield
    board.close()


@pytest.mark.slow
def test_a_node_that_leaves_a_group_alone_touches_nothing(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.deploy("a")
    monkeypatch.setattr(module, "MEET_SECONDS", 0.5)
    monkeypatch.setattr(group_module, "LINGER_SECONDS", 0.5)
    with watching(pair.worker):
        pair.head.run(pair.head.release("b", alone=True))
    assert "Nothing was stopped. vllm-main.service is a part of pair/main" in str(pair.head.failure)
    assert "would leave a broken one to rank 1 (worker). Run the play for all nodes" in str(pair.head.failure)
    assert pair.serves == ["a", "a"]
    assert pair.head.watched
    assert UNIT not in pair.head.node.stopped


@pytest.mark.slow
def test_nodes_that_leave_a_group_together_do(pair: Pair) -> None:
    pair.deploy("a")
    with watching(pair.head), watching(pair.worker):
        assert pair.switch(*(host.release("b", alone=True) for host in pair.hosts)) == ["", ""]
    assert pair.serves == ["b", "b"]
    assert pair.watched == [False, False]


@pytest.mark.slow
@pytest.mark.parametrize(("phase", "digest"), [("stopped", ""), ("failed", ""), ("up", "of another release")])
def test_a_node_leaves_a_group_in_which_nobody_works(pair: Pair, phase: str, digest: str) -> None:
    pair.deploy("a")
    with watching(pair.worker, phase, digest):
        pair.head.run(pair.head.release("b", alone=True))
    assert pair.head.failure is None
    assert pair.head.serves == "b"


@pytest.mark.slow
def test_what_does_not_run_any_more_can_be_replaced(pair: Pair) -> None:
    pair.deploy("a")
    pair.head.node.stop(UNIT)
    with watching(pair.worker):
        pair.head.run(pair.head.release("b", alone=True))
    assert pair.head.failure is None


@pytest.mark.slow
def test_what_is_stopped_is_watched_no_more(pair: Pair) -> None:
    pair.deploy("a")
    current = pair.head.store.linked("main", "current")
    assert current is not None
    work = GroupSwitch(t.cast("t.Any", pair.head.node), pair.head.store, Limits(600, 120, 60), lambda _line: None)
    work.stop([current])
    assert not pair.head.watched
    assert pair.head.node.boot == set()


def stopped_alone(host: Host) -> list[Finding]:
    current = host.store.linked("main", "current")
    assert current is not None
    work = GroupSwitch(t.cast("t.Any", host.node), host.store, Limits(600, 120, 60), lambda _line: None)
    work.stop([current])
    assert not host.node.runs(UNIT)
    return work.report.findings


@pytest.mark.slow
def test_a_node_that_is_stopped_alone_says_who_runs_on(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.deploy("a")
    monkeypatch.setattr(module, "STOP_TOGETHER_SECONDS", 0.0)
    with watching(pair.worker):
        (finding,) = stopped_alone(pair.head)
        # Whoever is stopped already leaves nobody.
        assert stopped_alone(pair.head) == []
    assert (finding.id, finding.severity, finding.numbers) == ("group-parted", "warning", {"left": ["rank 1 (worker)"]})
    assert "pair/main, one engine on several nodes" in finding.message
    assert stopped_alone(pair.worker) == []


@pytest.mark.slow
def test_nodes_that_are_stopped_together_leave_nobody(pair: Pair) -> None:
    pair.deploy("a")
    with watching(pair.head), watching(pair.worker), ThreadPoolExecutor() as pool:
        found = list(pool.map(stopped_alone, pair.hosts))
    assert found == [[], []]


@pytest.mark.slow
def test_no_secret_is_shown_to_the_network(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []
    close = group_module.GroupProof.close

    def look(proof: group_module.GroupProof) -> None:
        shown.append(fetch("127.0.0.2", pair.worker.group.port))
        close(proof)

    pair.switch(*(host.release("a", key="key-of-before") for host in pair.hosts))
    monkeypatch.setattr(group_module.GroupProof, "close", look)
    releases = [host.release("b") for host in pair.hosts]
    pair.worker.node.broken = {releases[1].id}
    pair.switch(*releases)
    states = [state for state in shown if state is not None]
    assert "CUDA out of memory near ******** and ********" in {state.cause.get("line") for state in states}
    assert not [s for s in states if "s3cr3t-key" in json.dumps(vars(s)) or "key-of-before" in json.dumps(vars(s))]


def test_a_release_of_one_node_has_no_part_in_a_group() -> None:
    assert stage({"group": {}, "instance": "main", "state_dir": "/s"}, UNIT) == ({}, [], {})


def test_what_is_no_group_is_refused() -> None:
    with pytest.raises(ModelopsError, match="rank 4 of 2 members"):
        stage({"group": {**Group("g", MEMBERS, 0, 1).as_dict(), "rank": 4}, "instance": "m", "state_dir": "/s"}, UNIT)


def test_all_ranks_have_the_same_digest_and_each_its_own_file(tmp_path: Path) -> None:
    params = {
        "instance": "main",
        "state_dir": "/var/lib/vllm",
        "config_dir": "/etc/vllm",
        "args_text": "a: 1\n",
        "vllm_version": "0.32.0",
        "commit": None,
        "watch_text": "[Unit]\n",
    }
    groups = [Group("pair/main", MEMBERS, rank, 29510) for rank in (0, 1)]
    staged = [stage({**params, "group": group.as_dict()}, UNIT) for group in groups]
    assert staged[0].record["group"]["digest"] == staged[1].record["group"]["digest"]
    assert [f["dest"] for f in staged[0].files] == [
        "/etc/vllm/main.group.json",
        f"/etc/systemd/system/{watch_of('main')}",
    ]
    path = tmp_path / "group.json"
    path.write_text(staged[1].contents["group.json"])
    config = module.watch.Config.read(str(path))
    assert config.group == groups[1]
    assert (config.unit, config.lock) == (UNIT, "/var/lib/vllm/switch.lock")
    assert config.memory == "/var/lib/vllm/instances/main/watch.json"
