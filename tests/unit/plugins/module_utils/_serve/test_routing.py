# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of vllm-router: what is said, and what would make a router that serves nothing or shows a secret."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.modelops.vllm.plugins.filter.router_argv import FilterModule, router_argv
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._serve.replicas import instances
from ansible_collections.modelops.vllm.plugins.module_utils._serve.routing import argv

TWO = ["http://127.0.0.1:8001", "http://127.0.0.1:8002"]
OPTIONS: dict[str, t.Any] = {
    "host": "127.0.0.1",
    "port": 8000,
    "policy": "round_robin",
    "metrics_host": "127.0.0.1",
    "metrics_port": 29000,
    "health_interval": 10,
    "startup_timeout": 3600,
}


def refused(backends: t.Any, **options: t.Any) -> str:
    with pytest.raises(ModelopsError) as e:
        argv(backends, **{**OPTIONS, **options})
    return str(e.value)


def further(args: dict[str, t.Any]) -> list[str]:
    """What ``args`` add."""
    return argv(TWO, **OPTIONS, args=args)[len(argv(TWO, **OPTIONS)) :]


def test_every_variable_is_a_flag() -> None:
    assert argv(TWO, **OPTIONS) == [
        "--worker-urls",
        "http://127.0.0.1:8001",
        "http://127.0.0.1:8002",
        "--host=127.0.0.1",
        "--port=8000",
        "--policy=round_robin",
        "--health-check-interval-secs=10",
        "--worker-startup-timeout-secs=3600",
        "--prometheus-host=127.0.0.1",
        "--prometheus-port=29000",
    ]


def test_texts_of_awx_are_the_same() -> None:
    texts = {**OPTIONS, "port": "8000", "metrics_port": "29000", "health_interval": "10", "startup_timeout": "3600"}
    assert argv("http://127.0.0.1:8001/, http://127.0.0.1:8002", **texts) == argv(TWO, **OPTIONS)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"request-timeout-secs": 3600}, ["--request-timeout-secs=3600"]),
        ({"--request_timeout_secs": "3600"}, ["--request-timeout-secs=3600"]),
        ({"disable-retries": True}, ["--disable-retries"]),
        ({"disable-retries": False, "queue-size": None}, []),
        ({"request-id-headers": ["x-a", "x-b"]}, ["--request-id-headers", "x-a", "x-b"]),
        ({"program-scheduling-config-json": {"a": [1]}}, ['--program-scheduling-config-json={"a":[1]}']),
        ({"selector": "-x"}, ["--selector=-x"]),
    ],
)
def test_further_flags_are_written_as_its_parser_reads_them(args: dict[str, t.Any], words: list[str]) -> None:
    assert further(args) == words


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"port": 1}, "router_args must not have port. Set router_port."),
        ({"worker_urls": "x"}, "Set router_backends."),
        ({"--policy": "x"}, "Set router_policy."),
        ({"service-discovery": True}, "It asks Kubernetes"),
        ({"mini-lb": True}, "toy"),
        ({"log-dir": "/tmp"}, "journal"),
        ({"a b": 1}, "'a b', which is not the long name of a flag"),
        ({"queue-size": "1\n2"}, "The value of queue-size holds a line break"),
    ],
)
def test_a_flag_that_would_do_harm_is_refused(args: dict[str, t.Any], words: str) -> None:
    assert words in refused(TWO, args=args)


@pytest.mark.parametrize(
    "args",
    [
        {"otlp-endpoint": "http://user:hunter2@collector:4317"},
        {"decode": ["http://10.0.0.2:1", "http://hunter2@10.0.0.3:1"]},
        {"config-json": {"url": "http://user:hunter2@collector"}},
    ],
)
def test_a_secret_in_a_url_of_a_further_flag_is_refused_and_not_shown(args: dict[str, t.Any]) -> None:
    message = refused(TWO, args=args)
    assert f"a user or a password in a URL of {next(iter(args))}" in message
    assert "hunter2" not in message


def test_an_at_sign_that_is_no_user_is_none() -> None:
    args = {"config-json": {"url": "http://collector", "mail": "a@example.com"}, "mirror": "http://a/x@1"}
    assert further(args)[1] == "--mirror=http://a/x@1"


def test_a_key_on_the_command_line_is_refused_and_not_shown() -> None:
    message = refused(TWO, args={"api-key": "hunter2"})
    assert "router_args must not have api-key" in message
    assert "serve_api_key" in message
    assert "hunter2" not in message


@pytest.mark.parametrize("url", ["http://user:hunter2@127.0.0.1:8001", "http://127.0.0.1:8001/v1?key=hunter2"])
def test_a_secret_in_a_url_is_refused_and_not_shown(url: str) -> None:
    message = refused([url])
    assert "in the URL of 127.0.0.1" in message
    assert "hunter2" not in message


@pytest.mark.parametrize(
    ("backends", "words"),
    [
        ([], "router_backends is empty"),
        (None, "router_backends is empty"),
        (["127.0.0.1:8001"], "no http URL of a server"),
        (["ftp://a:21"], "'ftp://a:21', which is no http URL"),
        (["http://a:8001 b"], "no URL"),
        (["http://a:port"], "no URL"),
        (["http://[::1:8001"], "no URL"),
        (["http://a:8001/v1"], "a path, a query or a fragment in the URL of a."),
        ([TWO[0], TWO[0] + "/"], "has http://127.0.0.1:8001 twice"),
        ([TWO[0], "http://localhost:8001"], "http://localhost:8001 twice, the other time as http://127.0.0.1:8001."),
        (["http://[::1]:8001", "https://[0:0::1]:8001/"], "twice, the other time as http://[::1]:8001."),
        (["http://127.0.0.1:8000"], "where the router itself listens (router_port)"),
        (["http://localhost:8000"], "where the router itself listens (router_port)"),
        (["http://0.0.0.0:8000"], "where the router itself listens (router_port)"),
        (["http://[::ffff:127.0.0.1]:8000"], "where the router itself listens (router_port)"),
        ([*TWO, "http://127.0.0.1:29000"], "where the router itself listens (router_metrics_port)"),
        (["http://gpu1"], "'http://gpu1', without a port from 1 to 65535."),
        (["http://gpu1:"], "without a port"),
        (["http://gpu1:0"], "without a port"),
    ],
)
def test_a_backend_that_cannot_be_one_is_refused(backends: t.Any, words: str) -> None:
    assert words in refused(backends)


def test_the_port_of_the_router_on_another_host_is_no_loop() -> None:
    assert "http://10.0.0.2:8000" in argv(["http://10.0.0.2:8000"], **OPTIONS)
    for backend, host in [
        ("http://127.0.0.1:8000", "0.0.0.0"),
        ("http://127.0.1.1:8000", "0.0.0.0"),
        ("http://127.0.0.1:8000", "::"),
        ("http://[::]:8000", "::"),
        ("http://[0:0::1]:8000", "::1"),
        ("http://10.0.0.2:8000", "10.0.0.2"),
        ("http://gpu1:8000", "gpu1"),
    ]:
        assert "the router itself listens" in refused([backend], host=host), (backend, host)
    for backend, host in [
        ("http://10.0.0.2:8000", "0.0.0.0"),
        ("http://[::1]:8000", "0.0.0.0"),
        ("http://127.0.0.2:8000", "127.0.0.1"),
        ("http://gpu2:8000", "gpu1"),
    ]:
        assert backend in argv([backend], **{**OPTIONS, "host": host}), (backend, host)


def test_the_metrics_of_a_name_would_be_those_of_all_addresses() -> None:
    assert "--prometheus-host=::1" in argv(TWO, **{**OPTIONS, "metrics_host": "::1"})
    for name in ("localhost", "gpu1", "", "[::1]"):
        assert f"router_metrics_host is {name!r}, no IP address" in refused(TWO, metrics_host=name)


def test_replicas_get_no_port_that_the_metrics_of_their_router_take() -> None:
    urls = [one.url for one in instances("main", "tp4-r2", 28999, gpus={"count": 8})]
    assert urls == ["http://127.0.0.1:29000", "http://127.0.0.1:29001"]
    assert "set router_metrics_port" in refused(urls, port=28999)
    assert urls[0] in argv(urls, **{**OPTIONS, "port": 28999, "metrics_host": "10.0.0.2"})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"port": 80}, "router_port is 80, the ports of a service are 1024 to 65535."),
        ({"metrics_port": "70000"}, "router_metrics_port is 70000"),
        ({"metrics_port": 8000}, "both 8000"),
        ({"health_interval": 0}, "router_health_interval is 0"),
        ({"startup_timeout": "soon"}, "router_startup_timeout is 'soon'"),
    ],
)
def test_a_number_that_cannot_be_is_refused(options: dict[str, t.Any], words: str) -> None:
    assert words in refused(TWO, **options)


def test_two_backends_are_the_least_for_a_choice_of_two() -> None:
    assert "power_of_two needs 2 backends, router_backends has 1" in refused(TWO[:1], policy="power_of_two")
    assert "--policy=power_of_two" in argv(TWO, **{**OPTIONS, "policy": "power_of_two"})


def test_the_filter_gives_the_same_words_and_filter_errors() -> None:
    assert FilterModule().filters() == {"router_argv": router_argv}
    assert router_argv(TWO, **OPTIONS) == argv(TWO, **OPTIONS)
    with pytest.raises(AnsibleFilterError, match="router_backends is empty"):
        router_argv([], **OPTIONS)
