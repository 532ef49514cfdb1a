# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vllm_port_info on this machine."""

from __future__ import annotations

import contextlib
import os
import socket
import typing as t


def test_a_free_port_and_a_taken_one(run_module: t.Callable[..., t.Any]) -> None:
    with contextlib.closing(socket.socket()) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        taken = run_module("vllm_port_info", {"port": port})
    assert (taken.rc, taken["valid"], taken["free"]) == (0, False, False)
    assert taken["owners"][0]["pid"] == os.getpid()
    assert taken["findings"][0]["id"] == "port-taken"
    free = run_module("vllm_port_info", {"port": port})
    assert (free["valid"], free["free"], free["findings"]) == (True, True, [])
