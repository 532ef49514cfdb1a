# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What podman on a node can do for an instance, asked before anything is stopped."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._findings import Finding
from ansible_collections.modelops.vllm.plugins.module_utils._serve.podman import Image, Podman, Sandbox

DIGEST = "sha256:" + "0123456789abcdef" * 4
IMAGE = f"quay.io/a/vllm@{DIGEST}"
# What nvidia-ctk 1.17 writes for two GPUs, shortened.
CDI = """\
---
cdiVersion: 0.5.0
containerEdits:
  env:
  - NVIDIA_VISIBLE_DEVICES=void
  hooks:
  - args: [nvidia-cdi-hook, update-ldcache]
    hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: "0"
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia1
  name: "1"
- name: all
kind: nvidia.com/gpu
"""


class Host:
    """A node on which each command answers as it is told to; what was run is kept."""

    def __init__(self, answers: dict[str, tuple[int, str, str]]) -> None:
        self.answers = answers
        self.commands: list[list[str]] = []

    def __call__(self, argv: t.Sequence[str]) -> tuple[int, str, str]:
        self.commands.append(list(argv))
        line = " ".join(argv)
        return next(
            (answer for start, answer in self.answers.items() if line.startswith(start)), (127, "", "not found")
        )


def version(text: str) -> dict[str, tuple[int, str, str]]:
    return {"podman --version": (0, f"podman version {text}\n", "")}


def ids(findings: t.Sequence[Finding]) -> list[str]:
    return [finding.id for finding in findings]


@pytest.fixture
def generator(tmp_path: Path) -> str:
    path = tmp_path / "podman-system-generator"
    path.touch(mode=0o755)
    return str(path)


@pytest.mark.parametrize("installed", ["4.4.1", "4.9.3", "5.4.2", "10.0.0-rc1"])
def test_a_podman_with_quadlet_is_taken(installed: str, generator: str) -> None:
    assert Podman(Host(version(installed)), [generator]).judge() == []


@pytest.mark.parametrize("installed", ["4.3.1", "3.4.4", "4.0.0"])
def test_a_podman_without_quadlet_is_refused_with_both_versions(installed: str, generator: str) -> None:
    (finding,) = Podman(Host(version(installed)), [generator]).judge()
    assert (finding.id, finding.severity) == ("podman-too-old", "error")
    assert finding.numbers == {"installed": installed, "minimum": "4.4"}


def test_no_podman_and_no_generator_are_told_apart(tmp_path: Path) -> None:
    assert ids(Podman(Host({})).judge()) == ["podman-missing"]
    assert ids(Podman(Host(version("5.0.0")), [str(tmp_path / "none")]).judge()) == ["quadlet-missing"]


def test_an_image_is_described_and_a_missing_one_is_none() -> None:
    said = [{"Id": "ab", "Digest": DIGEST, "Architecture": "amd64", "Size": 7, "Config": {}}]
    host = Host({f"podman image inspect --format=json -- {IMAGE}": (0, json.dumps(said), "")})
    assert Podman(host).image(IMAGE) == Image("ab", DIGEST, "amd64", 7)
    assert Podman(Host({"podman": (125, "", "no such image")})).image(IMAGE) is None


@pytest.mark.parametrize("answer", ["[]", "{}", "[{}, {}]", "no JSON", '[{"Id": "a"}]'])
def test_an_answer_that_describes_no_image_is_an_error(answer: str) -> None:
    with pytest.raises(ModelopsError, match="image inspect"):
        Podman(Host({"podman image": (0, answer, "")})).image(IMAGE)


def containers(*rows: tuple[str, dict[str, str] | None]) -> Host:
    said = [{"Names": [name], "Labels": labels, "State": "running"} for name, labels in rows]
    return Host({"podman ps": (0, json.dumps(said), "")})


def test_a_container_of_its_own_unit_may_be_replaced() -> None:
    host = containers(*((n, {"PODMAN_SYSTEMD_UNIT": f"{n}.service"}) for n in ("vllm-main", "vllm-main-r1")))
    assert Podman(host).judge_names("main") == []
    assert host.commands == [["podman", "ps", "--all", "--format=json", "--filter=name=^vllm-main(-r[0-9]+)?$"]]
    assert Podman(containers()).judge_names("main") == []


@pytest.mark.parametrize(
    ("labels", "who"),
    [(None, "somebody"), ({"a": "b"}, "somebody"), ({"PODMAN_SYSTEMD_UNIT": "chat.service"}, "chat.service")],
)
def test_a_container_of_somebody_else_is_an_error(labels: dict[str, str] | None, who: str) -> None:
    (finding,) = Podman(containers(("vllm-main", labels))).judge_names("main")
    assert (finding.id, finding.severity) == ("container-foreign", "error")
    assert (
        f"a container vllm-main on this node, which {who} has started and not the unit vllm-main.s" in finding.message
    )
    assert finding.numbers["container"] == "vllm-main"


@pytest.mark.parametrize("answer", [(125, "", "no storage"), (0, "no JSON", ""), (0, "[{}]", "")])
def test_a_podman_that_does_not_tell_its_containers_is_an_error(answer: tuple[int, str, str]) -> None:
    with pytest.raises(ModelopsError, match="podman ps does not tell which containers there are"):
        Podman(Host({"podman ps": answer})).judge_names("main")


def test_the_pull_takes_credentials_from_the_file_alone() -> None:
    host = Host({"podman pull": (0, "", "")})
    Podman(host).pull(IMAGE, "/etc/auth.json")
    Podman(host).pull(IMAGE, "")
    assert host.commands == [
        ["podman", "pull", "--quiet", "--authfile=/etc/auth.json", "--", IMAGE],
        ["podman", "pull", "--quiet", "--", IMAGE],
    ]


def test_a_failed_pull_names_the_image_the_reason_and_the_file() -> None:
    with pytest.raises(ModelopsError, match="unauthorized") as e:
        Podman(Host({"podman pull": (125, "", "Error: unauthorized: access denied")})).pull(IMAGE, "")
    assert IMAGE in str(e.value)
    assert "serve_image_auth_file" in e.value.remedy


@pytest.mark.parametrize(
    ("machine", "architecture", "wrong"),
    [("x86_64", "amd64", []), ("aarch64", "arm64", []), ("aarch64", "amd64", ["image-architecture"])],
)
def test_an_image_for_another_machine_is_refused(machine: str, architecture: str, wrong: list[str]) -> None:
    assert ids(Podman.judge_image(IMAGE, Image("a", DIGEST, architecture, 1), machine)) == wrong


def test_devices_come_from_all_specifications(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "etc" / "nvidia.yaml").write_text(CDI)
    spec = {"kind": "vendor.example/net", "devices": [{"name": "ib0", "containerEdits": {}}]}
    (tmp_path / "run" / "net.json").write_text(json.dumps(spec))
    (tmp_path / "run" / "broken.json").write_text("{")
    (tmp_path / "run" / "README").write_text("kind: a/b\nname: c\n")
    podman = Podman(Host({}), (), [str(tmp_path / d) for d in ("etc", "run", "none")])
    assert podman.cdi_devices() == {
        "nvidia.com/gpu=0",
        "nvidia.com/gpu=1",
        "nvidia.com/gpu=all",
        "vendor.example/net=ib0",
    }
    assert podman.judge_devices(["nvidia.com/gpu=0", "vendor.example/net=ib0", "/dev/null:/dev/null:rw"]) == []
    (finding,) = podman.judge_devices(["nvidia.com/gpu=1", "nvidia.com/gpu=2", "/dev/none"])
    assert finding.id == "device-unknown"
    assert finding.numbers == {"missing": ["/dev/none", "nvidia.com/gpu=2"]}
    assert "nvidia-ctk cdi generate" in finding.remedy
    assert "nvidia.com/gpu=0, nvidia.com/gpu=1, nvidia.com/gpu=all" in finding.message


def test_volumes_must_be_there(tmp_path: Path) -> None:
    (finding,) = Podman.judge_volumes([f"{tmp_path}:/y", f"{tmp_path}/gone:/x:ro"])
    assert (finding.id, finding.numbers) == ("volume-missing", {"path": f"{tmp_path}/gone"})


def test_links_of_the_model_must_stay_within_what_is_mounted(tmp_path: Path) -> None:
    blobs, model = tmp_path / "blobs", tmp_path / "snapshots" / "m"
    blobs.mkdir()
    model.mkdir(parents=True)
    (blobs / "b1").write_text("x")
    (model / "config.json").symlink_to("../../blobs/b1")
    (model / "again.json").symlink_to("config.json")
    (model / "inner").symlink_to(model)
    volume = f"{model}:{model}:ro"
    (finding,) = Podman.judge_links(str(model), [volume])
    assert (finding.id, finding.numbers) == ("link-outside", {"links": 2})
    assert str(blobs / "b1") in finding.message
    assert Podman.judge_links(str(model), [volume, f"{blobs}:{blobs}:ro"]) == []


def test_a_model_directory_that_is_a_link_itself_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_text("x")
    (tmp_path / "data" / "b").symlink_to("a")
    (tmp_path / "current").symlink_to("data")
    assert Podman.judge_links(f"{tmp_path}/current", [f"{tmp_path}/current:/m:ro"]) == []


UNIT = "---vllm-x.service---\n[Service]\nExecStart=/usr/bin/podman run\n\n---other.service---\n[Service]\n"


def test_a_file_that_quadlet_and_systemd_take_is_no_finding(generator: str) -> None:
    host = Host({"env QUADLET_UNIT_DIRS=": (0, UNIT, ""), "systemd-analyze verify": (0, "", "")})
    assert Podman(host, [generator]).judge_file("vllm-x", "[Container]\n") == []
    assert host.commands[0][0:1] + host.commands[0][2:] == ["env", generator, "--dryrun"]
    assert host.commands[1][-1].endswith("/vllm-x.service")


def test_a_file_that_quadlet_refuses_is_an_error_with_its_words(generator: str) -> None:
    # podman 5.4, and the last line of other versions
    words = (
        "quadlet-generator[1]: Loading source unit file /tmp/x/vllm-x.container\n"
        "quadlet-generator[1]: converting \"vllm-x.container\": unsupported key 'Foo' in group 'Container'\n"
        "quadlet-generator[1]: processing encountered some errors\n"
    )
    host = Host({**version("5.4.2"), "env QUADLET_UNIT_DIRS=": (1, "", words)})
    (finding,) = Podman(host, [generator]).judge_file("vllm-x", "[Container]\nFoo=1\n")
    assert (finding.id, finding.severity) == ("quadlet-refused", "error")
    assert "unsupported key 'Foo'" in finding.message


@pytest.mark.parametrize(("status", "severity"), [(0, "warning"), (1, "error")])
def test_what_systemd_says_to_the_unit_is_a_finding(status: int, severity: str, generator: str) -> None:
    words = "vllm-x.service:9: Unknown key 'Restrat' in section [Service], ignoring.\n"
    host = Host({"env QUADLET_UNIT_DIRS=": (0, UNIT, ""), "systemd-analyze verify": (status, "", words)})
    (finding,) = Podman(host, [generator]).judge_file("vllm-x", "[Container]\n")
    assert (finding.id, finding.severity) == ("unit-refused", severity)
    assert "Restrat" in finding.message


def test_a_question_has_no_network_no_rights_and_an_end() -> None:
    sandbox = Sandbox(IMAGE, ["/srv/m:/srv/m:ro"], ["nvidia.com/gpu=0"])
    command = sandbox.command(["vllm", "serve", "--help=all"], {"A": "b c"}, 60)
    assert command[:3] == ["podman", "run", "--rm"]
    assert command[-4:] == ["--entrypoint=vllm", IMAGE, "serve", "--help=all"]
    wanted = {"--network=none", "--cap-drop=all", "--pull=never", "--timeout=60", "--volume=/srv/m:/srv/m:ro"}
    assert wanted | {"--device=nvidia.com/gpu=0", "--env=A=b c"} <= set(command)
