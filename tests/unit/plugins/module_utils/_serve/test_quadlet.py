# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The .container file: what it says, what it refuses, and that Quadlet and systemd read each value as it was."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._serve import quadlet, render
from ansible_collections.modelops.vllm.plugins.module_utils._serve.quadlet import Container, container_file

DIGEST = "sha256:" + "0123456789abcdef" * 4
IMAGE = f"docker.io/vllm/vllm-openai@{DIGEST}"
NASTY = 'a b"c\'d\\e%f$g${HOME}#h;i=j é😀 \\n %% $$ \\"'
SECTIONS: dict[str, dict[str, t.Any]] = {
    "Unit": {"Description": "vLLM instance main", "StartLimitBurst": 3},
    "Service": {
        "Type": "exec",
        "User": "vllm",
        "Group": "vllm",
        "WorkingDirectory": "/var/lib/vllm/home",
        "EnvironmentFile": "/etc/vllm/main.env",
        "Restart": "always",
        "RestartPreventExitStatus": 2,
        "TimeoutStopSec": 120,
        "KillMode": "control-group",
        "OOMScoreAdjust": -500,
        "LimitNOFILE": 1048576,
        "LimitMEMLOCK": "infinity",
        "NoNewPrivileges": True,
        "ProtectSystem": "full",
        "RestrictSUIDSGID": True,
        "SystemCallArchitectures": "native",
        "LockPersonality": True,
        "UMask": "0027",
    },
    "Install": {"WantedBy": "multi-user.target"},
}
CONTAINER = Container(
    name="vllm-main",
    image=IMAGE,
    argv=["vllm", "serve", "--config", "/etc/vllm/main.yaml"],
    user="990:991",
    environment={"B": "two words", "A": 1},
    secrets=["VLLM_API_KEY", "HF_TOKEN"],
    volumes=["/etc/vllm/main.yaml:/etc/vllm/main.yaml:ro", "/srv/models/m:/srv/models/m:ro"],
    devices=["nvidia.com/gpu=2", "nvidia.com/gpu=3"],
)
TEXT = f"""\
[Unit]
Description=vLLM instance main
StartLimitBurst=3

[Container]
ContainerName=vllm-main
Image={IMAGE}
User=990
Group=991
Network=host
NoNewPrivileges=true
DropCapability=all
SecurityLabelDisable=true
AddDevice=nvidia.com/gpu=2
AddDevice=nvidia.com/gpu=3
Volume=/etc/vllm/main.yaml:/etc/vllm/main.yaml:ro
Volume=/srv/models/m:/srv/models/m:ro
Environment=A=1
Environment="B=two words"
PodmanArgs=--entrypoint=vllm
PodmanArgs=--pull=never
PodmanArgs=--log-driver=passthrough
PodmanArgs=--stop-timeout=110
PodmanArgs=--pids-limit=0
PodmanArgs=--ipc=host
PodmanArgs=--workdir=/var/lib/vllm/home
PodmanArgs=--oom-score-adj=-500
PodmanArgs=--ulimit=nofile=1048576:1048576
PodmanArgs=--ulimit=memlock=-1:-1
PodmanArgs=--umask=0027
PodmanArgs=--env=HF_TOKEN
PodmanArgs=--env=VLLM_API_KEY
Exec=serve --config /etc/vllm/main.yaml

[Service]
EnvironmentFile=/etc/vllm/main.env
Restart=always
RestartPreventExitStatus=2
TimeoutStopSec=120
ExecStartPre=-/usr/bin/podman rm --volumes --force --ignore --time=0 vllm-main
"""


def with_(**changes: t.Any) -> str:
    return container_file(SECTIONS, dataclasses.replace(CONTAINER, **changes))


def test_the_sections_of_the_service_become_a_container() -> None:
    assert container_file(SECTIONS, CONTAINER) == render.HEADER + TEXT


def test_commands_of_the_user_before_the_start_stay() -> None:
    text = container_file(SECTIONS, CONTAINER, {"Service": {"ExecStartPre": "/usr/bin/true"}})
    assert "--time=0 vllm-main\nExecStartPre=/usr/bin/true\n" in text


def test_without_gpus_there_is_no_device() -> None:
    assert "AddDevice" not in with_(devices=[])


def test_an_own_shared_memory_replaces_that_of_the_node() -> None:
    text = with_(shm_size="16g")
    assert "PodmanArgs=--shm-size=16g\n" in text
    assert "--ipc" not in text


def test_limits_keep_their_soft_and_hard_value() -> None:
    service = {**SECTIONS["Service"], "LimitNOFILE": "1024:infinity", "LimitMEMLOCK": None}
    text = container_file({**SECTIONS, "Service": service}, CONTAINER)
    assert "PodmanArgs=--ulimit=nofile=1024:-1\n" in text
    assert "memlock" not in text


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"user": "vllm:vllm"}, "vllm:vllm"),
        ({"user": "990"}, "990"),
        ({"volumes": ["models:/srv:ro"]}, "models:/srv:ro"),
        ({"volumes": ["/srv/a:b"]}, "/srv/a:b"),
        ({"volumes": ["/srv/a:/b:ro:/c"]}, "/srv/a:/b:ro:/c"),
        ({"volumes": ["/srv/a\n[Service]:/b"]}, "Volume"),
        ({"devices": ["nvidia.com/gpu=0 nvidia.com/gpu=1"]}, "nvidia.com/gpu=0 nvidia.com/gpu=1"),
        ({"devices": ["--privileged"]}, "--privileged"),
        ({"shm_size": "lots"}, "lots"),
        ({"secrets": ["A B"]}, "A B"),
        ({"environment": {"A B": "x"}}, "A B"),
        ({"environment": {"A": "x\ny"}}, "A"),
        ({"environment": {"A": True}}, "A"),
    ],
)
def test_what_podman_would_read_differently_is_refused_by_name(changes: dict[str, t.Any], word: str) -> None:
    with pytest.raises(ModelopsError) as e:
        with_(**changes)
    assert word in str(e.value)


@pytest.mark.parametrize(
    ("service", "word"),
    [({"LimitNOFILE": "1M"}, "LimitNOFILE"), ({"LimitAS": 5}, "LimitAS"), ({"TimeoutStopSec": "2min"}, "2min")],
)
def test_what_has_no_counterpart_in_podman_is_refused_by_name(service: dict[str, t.Any], word: str) -> None:
    with pytest.raises(ModelopsError, match=word):
        container_file({**SECTIONS, "Service": {**SECTIONS["Service"], **service}}, CONTAINER)


def test_overrides_make_lists_longer_and_replace_other_values() -> None:
    said = {
        "Container": {"AddDevice": "/dev/infiniband", "PodmanArgs": ["--cpuset-mems=0"], "ReadOnly": True},
        "Service": {"OOMScoreAdjust": None, "ProtectSystem": None, "MemoryMax": "500G"},
    }
    text = container_file(SECTIONS, CONTAINER, said)
    assert "AddDevice=nvidia.com/gpu=3\nAddDevice=/dev/infiniband\n" in text
    assert "PodmanArgs=--env=VLLM_API_KEY\nPodmanArgs=--cpuset-mems=0\n" in text
    assert "ReadOnly=true\n" in text
    assert "MemoryMax=500G\n" in text
    assert "oom-score-adj" not in text
    assert text.count("[Container]") == 1


@pytest.mark.parametrize(
    "overrides",
    [
        {"Container": {"Image": "docker.io/other:latest"}},
        {"Container": {"Exec": "rm"}},
        {"Container": {"Pull": "always"}},
        {"Container": {"LogDriver": "none"}},
        {"Container": {"User": "0"}},
        {"Service": {"Restart": "no"}},
        {"Service": {"ExecStop": "/bin/true"}},
        {"Service": {"KillSignal": "SIGKILL"}},
        {"Service": {"RemainAfterExit": True}},
        {"Service": {"KillMode": "none"}},
        {"Service": {"ProtectHome": True}},
        {"Service": {"ReadWritePaths": "/srv"}},
        {"Socket": {"ListenStream": 1}},
    ],
)
def test_an_override_that_would_strand_the_node_is_refused(overrides: dict[str, dict[str, t.Any]]) -> None:
    with pytest.raises(ModelopsError):
        container_file(SECTIONS, CONTAINER, overrides)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        pytest.param("StopTimeout", 5, "change StopTimeout of .*: set serve_stop_timeout", id="B03-StopTimeout"),
        ("PodmanArgs", "--stop-timeout=5", "change --stop-timeout by PodmanArgs .*: set serve_stop_timeout"),
        ("StopSignal", "SIGKILL", "on SIGTERM"),
        ("AutoUpdate", "registry", "the one that was checked"),
        ("Network", "bridge", "serve_host and serve_port"),
        ("PodmanArgs", ["--cpuset-mems=0", "--net bridge"], "change --net by PodmanArgs .* serve_host and serve_port"),
        ("Pod", "a.pod", "serve_host and serve_port"),
        ("UserNS", "auto", "belong to the users of the node"),
        ("UIDMap", "0:1000:1", "belong to the users of the node"),
        ("PodmanArgs", '"--userns=keep-id"', "belong to the users of the node"),
        ("PodmanArgs", "--pull=always", "pulled before anything is stopped"),
        ("AddDevice", "nvidia.com/gpu=all", "add GPUs .* AddDevice=nvidia.com/gpu=all .*Set serve_devices"),
        ("AddDevice", ["/dev/infiniband", "-/dev/nvidia0"], "add GPUs"),
        ("PodmanArgs", "--device=nvidia.com/gpu=7", "add GPUs"),
        ("PodmanArgs", "--gpus all", "add GPUs"),
    ],
)
def test_an_override_that_fights_what_is_kept_says_what_to_set(key: str, value: t.Any, words: str) -> None:
    with pytest.raises(ModelopsError, match=words):
        container_file(SECTIONS, CONTAINER, {"Container": {key: value}})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("AddDevice", ["/dev/infiniband", "/dev/nvidia-caps-imex-channels/channel0"]),
        ("PodmanArgs", ["--cpuset-mems=0", "--network-alias=x", "--cgroups=split"]),
    ],
)
def test_other_devices_and_flags_are_added(key: str, value: list[str]) -> None:
    text = container_file(SECTIONS, CONTAINER, {"Container": {key: value}})
    assert "".join(f"{key}={one}\n" for one in value) in text


@pytest.mark.parametrize(
    ("image", "wanted"),
    [
        (IMAGE, IMAGE),
        (f"docker.io/vllm/vllm-openai:v0.32.0@{DIGEST}", IMAGE),
        (f"localhost:5000/vllm@{DIGEST}", f"localhost:5000/vllm@{DIGEST}"),
        (f"localhost/vllm@{DIGEST}", f"localhost/vllm@{DIGEST}"),
        (f"registry:5000/a/b__c/d-e@{DIGEST}", f"registry:5000/a/b__c/d-e@{DIGEST}"),
        (f"10.0.0.1:443/a@{DIGEST}", f"10.0.0.1:443/a@{DIGEST}"),
    ],
)
def test_an_image_is_named_by_registry_and_digest(image: str, wanted: str) -> None:
    assert quadlet.image_reference(image) == wanted


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("docker.io/vllm/vllm-openai:latest", ["without a digest", "docker.io/vllm/vllm-openai@sha256:..."]),
        ("docker.io/vllm/vllm-openai", ["without a digest"]),
        ("localhost/vllm:v1", ["without a digest"]),
        (f"vllm/vllm-openai@{DIGEST}", ["no full name", "registry"]),
        ("vllm-openai", ["no full name"]),
        ("", ["no full name"]),
        (f"docker.io/vllm/vllm-openai@{DIGEST[:-1]}", ["no full name"]),
        (f"docker.io/VLLM/x@{DIGEST}", ["no full name"]),
        (f"docker.io/vllm/x@{DIGEST} --privileged", ["no full name"]),
        (f"-v/:/host.io/x@{DIGEST}", ["no full name"]),
        (DIGEST, ["serve_image_local"]),
        (DIGEST[len("sha256:") :], ["serve_image_local"]),
    ],
)
def test_what_names_no_certain_image_is_refused_with_the_remedy(image: str, words: list[str]) -> None:
    with pytest.raises(ModelopsError) as e:
        quadlet.image_reference(image)
    for word in words:
        assert word in str(e.value)


def test_the_id_of_a_local_image_is_taken_when_it_may_be() -> None:
    assert quadlet.image_reference(DIGEST, allow_local=True) == DIGEST[len("sha256:") :]
    assert quadlet.image_reference(IMAGE, allow_local=True) == IMAGE


def test_the_source_of_a_volume_is_the_path_on_the_node() -> None:
    assert quadlet.volume_source("/srv/a b:/c:ro") == "/srv/a b"


GENERATOR = Path("/usr/lib/systemd/system-generators/podman-system-generator")


@pytest.mark.slow
@pytest.mark.skipif(not GENERATOR.exists(), reason="the podman here has no Quadlet; molecule/serve_podman asks one")
def test_quadlet_itself_reads_each_value_back(tmp_path: Path) -> None:
    changed = dataclasses.replace(CONTAINER, environment={"A": NASTY}, volumes=["/srv/a b$c:/srv/a b$c:ro"])
    (tmp_path / "vllm-main.container").write_text(container_file(SECTIONS, changed))
    env = {**os.environ, "QUADLET_UNIT_DIRS": str(tmp_path)}
    run = subprocess.run([str(GENERATOR), "--dryrun"], env=env, capture_output=True, text=True, check=False)
    (line,) = [row for row in run.stdout.splitlines() if row.startswith("ExecStart=")]
    expected = render.exec_line([f"A={NASTY}"])
    assert f"--env {expected}" in line
    assert "-v " + render.exec_line(["/srv/a b$c:/srv/a b$c:ro"]) in line
