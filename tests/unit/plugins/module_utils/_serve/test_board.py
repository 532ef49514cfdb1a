# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boards of a group: two of them on loopback addresses, and what they make of strange replies."""

from __future__ import annotations

import contextlib
import json
import socket
import time
import typing as t
import urllib.error
import urllib.request

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._serve.board import (
    Board,
    Group,
    Member,
    Seen,
    State,
    decode,
    encode,
    fetch,
)

STATE = State("pair/main", 1, "abc", "switch", "s1", "starting", cause={"id": "x"}, seen={"0": "m"})


def test_a_state_survives_the_way() -> None:
    assert decode(encode(STATE)) == STATE


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"schema": 2}, id="another-schema"),
        pytest.param({"rank": "1"}, id="rank-as-text"),
        pytest.param({"phase": None}, id="no-phase"),
        pytest.param({"cause": "oom"}, id="cause-as-text"),
        pytest.param({"more": 1}, id="an-unknown-field"),
    ],
)
def test_a_reply_of_another_kind_is_no_state(change: dict[str, t.Any]) -> None:
    assert decode(json.dumps({**json.loads(encode(STATE)), **change}).encode()) is None


# The last one is within the limit of a reply, and too deep for the parser.
@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b"\xff", pytest.param(b"[" * 60000, id="deep")])
def test_a_reply_of_another_program_is_no_state(body: bytes) -> None:
    assert decode(body) is None


def test_a_group_survives_its_file() -> None:
    group = Group("pair/main", (Member("a", "10.0.0.1"), Member("b", "10.0.0.2")), 1, 29510)
    assert Group.from_dict(json.loads(json.dumps(group.as_dict()))) == group
    assert group.title(1) == "rank 1 (b)"


def test_a_rank_outside_the_group_is_refused() -> None:
    with pytest.raises(ValueError, match="rank 2 of 1 members"):
        Group.from_dict({"name": "g", "members": [{"host": "a", "address": "10.0.0.1"}], "rank": 2, "port": 1})


def free_port() -> int:
    with contextlib.closing(socket.socket()) as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def pair() -> list[Group]:
    members, port = (Member("a", "127.0.0.1"), Member("b", "127.0.0.2")), free_port()
    return [Group("pair/main", members, rank, port) for rank in (0, 1)]


def board(group: Group, kind: t.Literal["switch", "watch"] = "switch", name: str = "pair/main") -> Board:
    return Board(group, State(name, group.rank, "abc", kind, f"s{group.rank}", "prepared"), 0.05)


def eventually(condition: t.Callable[[], bool]) -> bool:
    end = time.monotonic() + 10
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.slow
def test_two_boards_read_each_other_and_confirm_it() -> None:
    one, two = (board(group) for group in pair())
    one.open()
    assert one.peers()[1].state is None
    two.open()
    try:
        two.show(State("pair/main", 1, "abc", "switch", "s1", "failed", cause={"id": "oom"}))

        def told() -> Seen:
            return one.peers()[1]

        def heard() -> Seen:
            return two.peers()[0]

        assert eventually(lambda: told().state is not None and told().state.phase == "failed")  # type: ignore[union-attr]
        assert told().state.cause == {"id": "oom"}  # type: ignore[union-attr]
        assert told().silent == 0
        assert eventually(lambda: heard().state is not None and heard().state.seen.get("1") == "s1:1:failed")  # type: ignore[union-attr]
    finally:
        two.close()
    assert eventually(lambda: one.peers()[1].silent > 0)
    assert one.peers()[1].state.phase == "failed"  # type: ignore[union-attr]
    one.close()


@pytest.mark.slow
def test_a_board_answers_one_path_and_changes_nothing() -> None:
    group = pair()[0]
    shown = board(group)
    shown.open()
    try:
        url = f"http://127.0.0.1:{group.port}"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}/", timeout=5)
        with pytest.raises(urllib.error.HTTPError, match="501"):
            urllib.request.urlopen(f"{url}/group", data=b"{}", timeout=5)
        assert fetch("127.0.0.1", group.port) == State("pair/main", 0, "abc", "switch", "s0", "prepared")
    finally:
        shown.close()
    assert fetch("127.0.0.1", group.port) is None


@pytest.mark.slow
def test_the_board_of_another_group_is_not_a_peer() -> None:
    groups = pair()
    one, two = board(groups[0]), board(groups[1], name="other/main")
    one.open()
    two.open()
    try:
        assert eventually(lambda: fetch("127.0.0.2", groups[0].port) is not None)
        time.sleep(0.3)
        assert one.peers()[1].state is None
    finally:
        two.close()
        one.close()


@pytest.mark.slow
def test_the_end_of_a_switch_is_remembered_when_the_watch_has_taken_the_port() -> None:
    groups = pair()
    one, two = board(groups[0]), board(groups[1])
    one.open()
    two.open()
    assert eventually(lambda: one.peers()[1].state is not None)
    two.close()
    watch = board(groups[1], "watch")
    watch.open()
    try:
        assert eventually(lambda: one.peers()[1].silent > 0)
        assert one.peers()[1].state.kind == "switch"  # type: ignore[union-attr]
    finally:
        watch.close()
        one.close()
