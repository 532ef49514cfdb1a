# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""A board on each node of a group: it shows the state of its own node to the others, and reads theirs.

One GET over the cluster network, nothing that anybody could send to it: a board answers what is, and each node draws
its own conclusion. It needs nothing but Python, because the watch (:mod:`watch`) runs it as a service of its own.
"""

from __future__ import annotations

import http.client
import http.server
import json
import socket
import threading
import time
import typing as t
from dataclasses import asdict, dataclass, field

PATH: t.Final = "/group"
SCHEMA: t.Final = 1
_REPLY_LIMIT: t.Final = 1 << 16
# A node of the same cluster answers in milliseconds; one that does not is asked again.
_ANSWER_SECONDS: t.Final = 3.0

Kind: t.TypeAlias = t.Literal["switch", "watch"]


@dataclass(frozen=True)
class Member:
    """One node of a group. ``address`` is an IP address that the others reach."""

    host: str
    address: str


@dataclass(frozen=True)
class Group:
    """The nodes of one engine in the order of their ranks, and which of them this node is."""

    name: str
    members: tuple[Member, ...]
    rank: int
    port: int

    @classmethod
    def from_dict(cls, raw: t.Mapping[str, t.Any]) -> Group:
        """Out of its JSON form. Raises KeyError, TypeError or ValueError for anything else."""
        members = tuple(Member(str(m["host"]), str(m["address"])) for m in raw["members"])
        group = cls(str(raw["name"]), members, int(raw["rank"]), int(raw["port"]))
        if not 0 <= group.rank < len(members):
            raise ValueError(f"rank {group.rank} of {len(members)} members")
        return group

    def as_dict(self) -> dict[str, t.Any]:
        members = [asdict(m) for m in self.members]
        return {"name": self.name, "members": members, "rank": self.rank, "port": self.port}

    def title(self, rank: int) -> str:
        """A node of the group for a message."""
        return f"rank {rank} ({self.members[rank].host})"


@dataclass(frozen=True)
class State:
    """What one node says about its part of the group.

    ``session`` changes with each process that shows a board. ``attempt`` counts the releases that a switch has tried:
    1 the new one, 2 the last good one. ``epoch`` counts the starts of the group as a whole. ``seen`` tells, by rank,
    the newest mark (:meth:`mark`) of each other node: who reads it knows what has arrived.
    """

    group: str
    rank: int
    digest: str
    kind: Kind
    session: str
    phase: str
    attempt: int = 1
    epoch: int = 0
    invocation: str = ""
    cause: dict[str, str] = field(default_factory=dict)
    seen: dict[str, str] = field(default_factory=dict)

    @property
    def mark(self) -> str:
        """What another node confirms when it has read this state."""
        return f"{self.session}:{self.attempt}:{self.phase}"


def encode(state: State) -> bytes:
    """The state as its board sends it."""
    return json.dumps({"schema": SCHEMA, **asdict(state)}, sort_keys=True).encode()


def decode(body: bytes) -> State | None:
    """The state out of a reply; None for anything else, such as another program on this port."""
    try:
        raw = json.loads(body)
        if not isinstance(raw, dict) or raw.pop("schema", None) != SCHEMA:
            return None
        state = State(**raw)
    except (ValueError, TypeError, RecursionError):
        return None
    texts = (state.group, state.digest, state.kind, state.session, state.phase, state.invocation)
    numbers = (state.rank, state.attempt, state.epoch)
    if not all(isinstance(x, str) for x in texts) or not all(isinstance(x, int) for x in numbers):
        return None
    return state if isinstance(state.cause, dict) and isinstance(state.seen, dict) else None


@dataclass(frozen=True)
class Seen:
    """What is known of another node: its newest state, and for how many seconds it has not answered (0 when it does).

    Without a state it has not answered since this board was opened.
    """

    state: State | None
    silent: float


Fetch: t.TypeAlias = t.Callable[[str, int], "State | None"]


def fetch(address: str, port: int) -> State | None:
    """Ask the board of one node; None when it gives no answer."""
    connection = http.client.HTTPConnection(address, port, timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", PATH)
        response = connection.getresponse()
        return decode(response.read(_REPLY_LIMIT)) if response.status == http.client.OK else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


class Board:
    """Shows the state of this node and asks all others every ``interval`` seconds, while it is open."""

    def __init__(self, group: Group, state: State, interval: float, ask: Fetch = fetch) -> None:
        self._group = group
        self._peers = {i: member.address for i, member in enumerate(group.members) if i != group.rank}
        self._state = state
        self._interval = interval
        self._ask = ask
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._answers: dict[int, tuple[State, float]] = {}
        self._opened = 0.0
        self._server: _Server | None = None

    def open(self) -> None:
        """Bind the port, and start to ask. Raises OSError when the port cannot be bound."""
        self._server = _Server(self._group.members[self._group.rank].address, self._group.port, self._reply)
        self._opened = time.monotonic()
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True).start()
        for rank, address in self._peers.items():
            threading.Thread(target=self._follow, args=(rank, address), daemon=True).start()

    def close(self) -> None:
        """Free the port. Nothing is asked any more."""
        self._closed.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def show(self, state: State) -> None:
        """Show another state from now on."""
        with self._lock:
            self._state = state

    def peers(self) -> dict[int, Seen]:
        """All other ranks, and what is known of them."""
        now = time.monotonic()
        with self._lock:
            answers = dict(self._answers)
        found = {}
        for rank in self._peers:
            state, at = answers.get(rank, (None, self._opened))
            silent = now - at
            # Between two questions nobody is silent.
            found[rank] = Seen(state, 0.0 if state is not None and silent < 2 * self._interval + 1 else silent)
        return found

    def _reply(self) -> bytes:
        with self._lock:
            seen = {str(rank): state.mark for rank, (state, _at) in self._answers.items()}
            return encode(State(**{**asdict(self._state), "seen": seen}))

    def _follow(self, rank: int, address: str) -> None:
        while not self._closed.is_set():
            state = self._ask(address, self._group.port)
            if state is not None and state.group == self._group.name and state.rank == rank:
                with self._lock:
                    self._note(rank, state)
            self._closed.wait(self._interval)

    def _note(self, rank: int, state: State) -> None:
        before = self._answers.get(rank)
        if self._state.kind == "switch" and state.kind == "watch" and before is not None and before[0].kind == "switch":
            # It has ended its switch, and its watch has the port again. How it ended is what this switch needs to know.
            return
        self._answers[rank] = (state, time.monotonic())


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    # The watch takes the port over from a switch, and back.
    allow_reuse_address = True

    def __init__(self, address: str, port: int, reply: t.Callable[[], bytes]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.reply = reply
        super().__init__((address, port), _Handler)

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        """A client that hangs up is none of our business; the default would print a traceback."""


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = 5.0
    server: _Server

    def do_GET(self) -> None:
        if self.path != PATH:
            self.send_error(http.client.NOT_FOUND)
            return
        body = self.server.reply()
        self.send_response(http.client.OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: t.Any) -> None:
        """A question each second is not worth a line in the journal."""
