# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The arguments of vllm-router: checked as far as its own parser cannot, and without a secret.

Pure. Which flags and policies an installed router has is asked of its own parser; here is what would start well and
then fail or leak. Source: vllm-router 0.1.17, its ``--help`` and what it did with backends that are down, ports that
are taken and keys that are missing.
"""

from __future__ import annotations

import json
import re
import typing as t
from urllib.parse import urlsplit

from .._errors import ModelopsError
from .._planner.values import whole
from .addresses import Address, parse

# Where a client gets to that asks an address which is one to listen on, and what localhost is first in each hosts file.
_ASKED: t.Final[t.Mapping[str, str]] = {"localhost": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
_PORTS: t.Final = (1024, 65535)
_FLAG = re.compile(r"[a-z][a-z0-9-]*")
# A user or a password in a URL, also within JSON.
_USERINFO = re.compile(r"""://[^/?#\s"']*@""")
_CONTROL = re.compile("[\x00-\x1f\x7f]")

# Flags that have a variable of their own.
_VARIABLES: t.Final[t.Mapping[str, str]] = {
    "worker-urls": "router_backends",
    "host": "router_host",
    "port": "router_port",
    "policy": "router_policy",
    "prometheus-host": "router_metrics_host",
    "prometheus-port": "router_metrics_port",
    "health-check-interval-secs": "router_health_interval",
    "worker-startup-timeout-secs": "router_startup_timeout",
}
# Flags that would do harm, and what to do instead.
_REFUSED: t.Final[t.Mapping[str, str]] = {
    "api-key": "Everyone on the node could read it in the list of processes. The router hands the key of each client on"
    " to the backends, which check it: set serve_api_key there.",
    "mini-lb": "It is a toy for debugging, without health checks.",
    "service-discovery": "It asks Kubernetes; name the backends in router_backends.",
    "log-dir": "The log goes to the journal, which bounds it.",
}
# The router itself refuses to start with fewer.
_LEAST_BACKENDS: t.Final[t.Mapping[str, int]] = {"power_of_two": 2}


def argv(
    backends: t.Any,
    *,
    host: str,
    port: t.Any,
    policy: str,
    metrics_host: str,
    metrics_port: t.Any,
    health_interval: t.Any,
    startup_timeout: t.Any,
    args: t.Mapping[str, t.Any] | None = None,
) -> list[str]:
    """The arguments after ``vllm-router``. Times are seconds; ``args`` are further flags by their long names.

    :raises ModelopsError: for a value that would make a router which does not start, serves nothing or shows a secret.
    """
    listen, metrics = _port(port, "router_port"), _port(metrics_port, "router_metrics_port")
    if listen == metrics:
        raise ModelopsError(
            f"router_port and router_metrics_port are both {listen}: one port has one listener.",
            "Set router_metrics_port to a free port.",
        )
    if parse(metrics_host) is None:
        # vllm-router takes every name here for 0.0.0.0, without a word.
        raise ModelopsError(
            f"router_metrics_host is {metrics_host!r}, no IP address: vllm-router would show its metrics on all"
            " addresses.",
            "Give an address of the node, such as 127.0.0.1.",
        )
    urls = _backends(backends, {"router_port": (host, listen), "router_metrics_port": (metrics_host, metrics)})
    least = _LEAST_BACKENDS.get(policy, 1)
    if len(urls) < least:
        raise ModelopsError(
            f"router_policy {policy} needs {least} backends, router_backends has {len(urls)}.",
            "Choose round_robin, or give more backends.",
        )
    managed = {
        "host": host,
        "port": listen,
        "policy": policy,
        "health-check-interval-secs": whole(health_interval, "router_health_interval"),
        "worker-startup-timeout-secs": whole(startup_timeout, "router_startup_timeout"),
        "prometheus-host": metrics_host,
        "prometheus-port": metrics,
    }
    further = [word for name, value in (args or {}).items() for word in _words(_flag(name), value)]
    return ["--worker-urls", *urls, *(w for n, v in managed.items() for w in _words(n, v)), *further]


def _port(value: t.Any, name: str) -> int:
    port = whole(value, name)
    if not _PORTS[0] <= port <= _PORTS[1]:
        raise ModelopsError(
            f"{name} is {port}, the ports of a service are {_PORTS[0]} to {_PORTS[1]}.", f"Correct {name}."
        )
    return port


def _backends(values: t.Any, own: t.Mapping[str, tuple[str, int]]) -> list[str]:
    """The URLs without a trailing slash, each once. No message shows the part of a URL that may hold a password.

    ``own``: where the router itself listens, by the variables of the ports.
    """
    words = values.split(",") if isinstance(values, str) else list(values or [])
    urls = [_url(str(word).strip(), own) for word in words]
    if not urls:
        raise ModelopsError(
            "router_backends is empty: a router needs something to route to.",
            "Give the URLs of the instances, such as http://127.0.0.1:8001.",
        )
    servers: dict[tuple[object, int | None], str] = {}
    for url in urls:
        parts = urlsplit(url)
        server = (_asked(parts.hostname or ""), parts.port)
        if server in servers:
            also = "" if servers[server] == url else f", the other time as {servers[server]}"
            raise ModelopsError(f"router_backends has {url} twice{also}.", "Name each backend once.")
        servers[server] = url
    return urls


def _url(text: str, own: t.Mapping[str, tuple[str, int]]) -> str:
    remedy = "Give scheme, host and port, such as http://127.0.0.1:8001."
    try:
        parts = urlsplit(text)
        named, at = parts.hostname, parts.port
    except ValueError:
        raise ModelopsError("router_backends has an entry that is no URL.", remedy) from None
    if "@" in parts.netloc:
        raise ModelopsError(
            f"router_backends has a user or a password in the URL of {named}: everyone on the node could read it.",
            remedy,
        )
    if parts.scheme not in ("http", "https") or not named or re.search(r"[\s,]", text):
        raise ModelopsError(f"router_backends has {text!r}, which is no http URL of a server.", remedy)
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ModelopsError(f"router_backends has a path, a query or a fragment in the URL of {named}.", remedy)
    if not at:
        raise ModelopsError(f"router_backends has {text!r}, without a port from 1 to 65535.", remedy)
    for variable, (host, port) in own.items():
        if at == port and _leads_to(named, host):
            raise ModelopsError(
                f"router_backends has {text!r}, where the router itself listens ({variable}): one port has one"
                " listener, and a router must not ask itself.",
                f"Give the instances ports of their own, or set {variable}.",
            )
    return f"{parts.scheme}://{parts.netloc}"


def _leads_to(named: str, listening: str) -> bool:
    """Whether who asks ``named`` gets to a server on ``listening``, as far as names and addresses alone can tell."""
    one, other = _asked(named), parse(listening)
    if isinstance(one, str) or other is None:
        return one == _asked(listening)
    if other.is_unspecified:
        return one.is_loopback and (one.version == 4 or other.version == 6)
    return one == other


def _asked(host: str) -> Address | str:
    """The address that a client of ``host`` asks; the name itself where that does not say."""
    address = parse(host)
    text = _ASKED.get(host if address is None else str(address), host)
    return parse(text) or text


def _flag(name: t.Any) -> str:
    """A flag of router_args by its long name; a leading ``--`` and underscores are how people write it."""
    flag = str(name).removeprefix("--").replace("_", "-")
    if not _FLAG.fullmatch(flag):
        raise ModelopsError(f"router_args has {name!r}, which is not the long name of a flag.", "Correct it.")
    if flag in _VARIABLES:
        raise ModelopsError(f"router_args must not have {flag}.", f"Set {_VARIABLES[flag]}.")
    if flag in _REFUSED:
        raise ModelopsError(f"router_args must not have {flag}.", _REFUSED[flag])
    return flag


def _words(flag: str, value: t.Any) -> list[str]:
    """``--flag=value``, so that a value with a leading dash is none of the flags; a list gives several words."""
    if value is None or value is False:
        return []
    if value is True:
        return [f"--{flag}"]
    if isinstance(value, (list, tuple)):
        return [f"--{flag}", *(_text(flag, v) for v in value)]
    return [f"--{flag}={_text(flag, value)}"]


def _text(flag: str, value: t.Any) -> str:
    text = json.dumps(value, separators=(",", ":")) if isinstance(value, (dict, bool)) else str(value)
    if _CONTROL.search(text):
        raise ModelopsError(f"The value of {flag} holds a line break or another control character.", "Remove it.")
    if _USERINFO.search(text):
        raise ModelopsError(
            f"router_args has a user or a password in a URL of {flag}: everyone on the node could read it.",
            "Give a URL without one.",
        )
    return text
