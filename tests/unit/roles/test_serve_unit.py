# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit that the role serve describes: what the switch, systemd and vLLM rely on."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import jinja2
import pytest
import yaml

ROLE = Path(__file__).parents[3] / "roles" / "serve"


@pytest.fixture(scope="module")
def variables() -> dict[str, t.Any]:
    parts = (yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROLE / "vars/main").glob("*.yml"))
    return {name: value for part in parts for name, value in part.items()}


@pytest.fixture(scope="module")
def service(variables: dict[str, t.Any]) -> dict[str, t.Any]:
    return variables["__serve_unit_sections"]["Service"]


@pytest.mark.case("B02")
def test_a_stop_ends_all_workers_and_does_not_wait_for_those_that_outlive_the_server(service: dict[str, t.Any]) -> None:
    assert service["KillMode"] == "mixed"


@pytest.mark.case("B07")
def test_the_start_waits_for_no_model_and_the_role_does(service: dict[str, t.Any]) -> None:
    assert service["Type"] == "exec"
    assert service["TimeoutStartSec"] == 60
    assert "ExecStartPost" not in service
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text(encoding="utf-8"))
    # 595 GB at 0.2 GB/s take as long as this.
    assert defaults["serve_ready_timeout"] == 3600


def test_an_engine_that_dies_with_status_0_comes_back_and_a_wrong_flag_does_not(service: dict[str, t.Any]) -> None:
    assert (service["Restart"], service["RestartPreventExitStatus"]) == ("always", 2)


@pytest.mark.case("B09")
def test_every_cache_lies_below_the_home_of_the_service_user(variables: dict[str, t.Any]) -> None:
    env = variables["__serve_managed_env"]
    assert env["HOME"] == "{{ __serve_home }}"
    names = ["XDG_CACHE_HOME", "HF_HOME", "VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"]
    for name in [*names, "FLASHINFER_WORKSPACE_BASE", "CUDA_CACHE_PATH", "VLLM_CONFIG_ROOT"]:
        assert env[name].startswith("{{ __serve_home }}"), name


@pytest.mark.case("B10")
def test_the_user_of_the_service_is_a_named_one_that_the_role_makes() -> None:
    tasks = yaml.safe_load((ROLE / "tasks/user.yml").read_text(encoding="utf-8"))
    made = next(task["ansible.builtin.user"] for task in tasks if "ansible.builtin.user" in task)
    assert (made["name"], made["system"], made["home"]) == ("{{ serve_user }}", True, "{{ __serve_home }}")
    checks = yaml.safe_load((ROLE / "tasks/preflight.yml").read_text(encoding="utf-8"))[0]["ansible.builtin.assert"][
        "that"
    ]
    assert any("serve_user is match('^[a-z_]" in check for check in checks)  # so 1000 is refused


@pytest.mark.case("B11")
def test_the_path_has_the_venv_first_then_cuda_then_the_system(variables: dict[str, t.Any]) -> None:
    path = variables["__serve_path"]["PATH"].split(":")
    assert path[:2] == ["{{ serve_vllm_bin | dirname }}", "/usr/local/cuda/bin"]
    assert path[-1] == "/bin"


@pytest.mark.parametrize("directive", ["PrivateDevices", "MemoryDenyWriteExecute", "PrivateTmp", "ProtectClock"])
def test_nothing_hides_the_gpus_or_forbids_compiled_kernels(service: dict[str, t.Any], directive: str) -> None:
    # ProtectClock implies a list of allowed devices.
    assert directive not in service


def test_nodes_with_nvswitch_wait_for_the_fabric_manager(variables: dict[str, t.Any]) -> None:
    assert "nvidia-fabricmanager.service" in variables["__serve_unit_sections"]["Unit"]["After"].split()


@pytest.mark.case("B14")
def test_it_listens_on_loopback_unless_told_otherwise() -> None:
    assert yaml.safe_load((ROLE / "defaults/main.yml").read_text(encoding="utf-8"))["serve_host"] == "127.0.0.1"


def test_more_patience_restarts_nothing(variables: dict[str, t.Any]) -> None:
    """What stands in the unit, its environment or the flags of the router makes another release."""
    router = {
        part: yaml.safe_load((ROLE.parent / "router" / part / "main.yml").read_text(encoding="utf-8"))
        for part in ("defaults", "vars")
    }
    released = [
        variables["__serve_managed_env"],
        variables["__serve_unit_sections"],
        router["defaults"]["router_startup_timeout"],
        router["vars"]["__router_unit_sections"],
    ]
    assert "ready_timeout" not in str(released)
    assert variables["__serve_managed_env"]["VLLM_ENGINE_READY_TIMEOUT_S"] == "86400"


def test_an_installed_vllm_is_compared_with_what_was_asked_for_and_what_it_came_from() -> None:
    engine, install = (yaml.safe_load((ROLE / f"tasks/{name}.yml").read_text()) for name in ("engine_venv", "install"))
    read = next(task["ansible.builtin.slurp"]["path"] for task in engine if "ansible.builtin.slurp" in task)
    (written,) = (task["ansible.builtin.copy"] for task in install if "ansible.builtin.copy" in task)
    assert (written["dest"], written["mode"]) == (read, "0600")
    assert written["content"] == "{{ serve_vllm_requirement }}\n"
    checks = next(task for task in engine if "conflict" in task.get("vars", {}))
    assert checks["ansible.builtin.assert"]["that"] == "conflict | length == 0"
    assert "requirement_conflict(serve_vllm.version, source)" in checks["vars"]["conflict"]


@pytest.mark.parametrize(
    ("engine", "path", "taken"),
    [
        ("venv", "/opt/vllm-0.33.0+cu129/bin/vllm", True),
        ("venv", "/opt/my vllm/bin/vllm", False),
        ("venv", "/opt/100%/bin/vllm", False),
        ("venv", "/opt/$x/bin/vllm", False),
        ("venv", '/opt/"x"/bin/vllm', False),
        ("venv", "/opt/a\\b/bin/vllm", False),
        ("venv", "vllm", False),
        ("podman", "vllm", True),
    ],
)
def test_the_path_of_vllm_is_one_that_a_unit_can_name_and_a_switch_can_find(
    engine: str, path: str, taken: bool
) -> None:
    checks = yaml.safe_load((ROLE / "tasks/preflight.yml").read_text())[0]["ansible.builtin.assert"]["that"]
    (check,) = (check for check in checks if "serve_vllm_bin" in check)
    jinja = jinja2.Environment()
    jinja.tests["match"] = lambda text, pattern: re.match(pattern, text) is not None
    assert jinja.compile_expression(check)(serve_engine=engine, serve_vllm_bin=path) is taken


@pytest.mark.case("B14")
@pytest.mark.parametrize(
    ("key", "secrets", "protected"),
    [("", {}, False), ("k", {}, True), ("", {"VLLM_API_KEY": "k"}, True), ("", {"HF_TOKEN": "x"}, False)],
)
def test_a_key_protects_wherever_it_is_given(
    variables: dict[str, t.Any], key: str, secrets: dict[str, str], protected: bool
) -> None:
    gate = yaml.safe_load((ROLE / "tasks/gate.yml").read_text())[0]["modelops.vllm.vllm_args_info"]
    jinja = jinja2.Environment()
    jinja.filters["combine"] = lambda one, other: {**one, **other}

    def value(template: str, **names: t.Any) -> t.Any:
        return jinja.compile_expression(template.strip("{} "), undefined_to_none=False)(**names)

    both = value(variables["__serve_secrets"], serve_secret_env=secrets, serve_api_key=key)
    assert value(gate["protected"], __serve_secrets=both) is protected
