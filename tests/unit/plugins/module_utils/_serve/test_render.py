# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every value survives the parser that reads it: PyYAML for the args, systemd for the unit."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._serve import render

NASTY = 'a b"c\'d\\e%f$g${HOME}#h;i=j é😀 \\n %% $$ \\"'
NOBODY = 65534
SECTIONS: dict[str, dict[str, t.Any]] = {
    "Unit": {"Description": "x"},
    "Service": {"Type": "exec", "KillMode": "control-group", "TimeoutStopSec": 120},
    "Install": {"WantedBy": "multi-user.target"},
}


def test_args_are_read_back_by_pyyaml_as_they_were() -> None:
    flags: dict[str, t.Any] = {
        "s": NASTY,
        "n": 8,
        "f": 0.92,
        "small": 1e-05,
        "b": True,
        "list": ["a", NASTY, 3],
        "yes": "no",
    }
    flags["on"] = "0x1f"
    read = yaml.safe_load(render.args_yaml(flags))
    assert {str(k): v for k, v in read.items() if k not in (True, "small")} == {
        k: v for k, v in flags.items() if k not in ("yes", "on", "small")
    }
    assert float(read["small"]) == 1e-05


@pytest.mark.parametrize("value", [{"method": "mtp", "n": 3}, {"a": NASTY, "deep": {"x": [1, None, True]}}])
@pytest.mark.case("B04")
def test_json_flags_are_text_that_json_reads_back(value: dict[str, t.Any]) -> None:
    assert json.loads(yaml.safe_load(render.args_yaml({"c": value, "l": [value]}))["c"]) == value
    assert json.loads(yaml.safe_load(render.args_yaml({"l": [value]}))["l"][0]) == value


def systemd_env(text: str) -> dict[str, str]:
    """systemd's rules for double-quoted values of EnvironmentFile (parse_env_file_internal of systemd 252)."""
    result = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, _equals, rest = line.partition("=")
        assert rest[0] == rest[-1] == '"'
        value, chars = "", iter(rest[1:-1])
        for char in chars:
            if char == "\\":
                following = next(chars)
                value += following if following in '"\\`$' else "\\" + following
            else:
                assert char != '"'
                value += char
        result[name] = value
    return result


def test_the_environment_file_is_read_back_by_the_rules_of_systemd() -> None:
    env = {"A": NASTY, "B": "", "C": " lead`ing` ", "N": 3}
    assert systemd_env(render.env_file(env)) == {"A": NASTY, "B": "", "C": " lead`ing` ", "N": "3"}


@pytest.mark.parametrize("value", [NASTY, "", "two\u2028lines", "next\x85line", "paragraph\u2029"])
def test_an_environment_is_read_back_as_it_was(value: str) -> None:
    env = {"A": value, "TOKEN": "t"}
    assert render.read_env_file(render.env_file(env)) == env


@pytest.mark.parametrize("value", ["a\nB=evil", "a\0", True, None, ["x"]])
def test_a_secret_that_the_file_cannot_carry_is_refused_without_being_quoted(value: object) -> None:
    with pytest.raises(ModelopsError, match="TOKEN") as e:
        render.env_file({"TOKEN": value})
    assert "evil" not in str(e.value)


@pytest.mark.parametrize("name", ["A B", "1A", "A=B", "", "A-B"])
def test_what_is_no_name_of_a_variable_is_refused(name: str) -> None:
    with pytest.raises(ModelopsError, match="not the name"):
        render.env_file({name: "x"})


def test_a_unit_has_its_sections_in_order_and_lists_as_repeated_keys() -> None:
    text = render.unit({"Unit": {"After": ["a", "b"], "Gone": None}, "Service": {"NoNewPrivileges": True}})
    assert text == render.HEADER + "[Unit]\nAfter=a\nAfter=b\n\n[Service]\nNoNewPrivileges=true\n"


@pytest.mark.parametrize("value", ["a\nExecStartPre=/bin/evil", "ends with \\"])
def test_a_value_that_would_become_another_line_is_refused(value: str) -> None:
    with pytest.raises(ModelopsError, match="Description"):
        render.unit({"Unit": {"Description": value}})


@pytest.mark.parametrize(
    "overrides",
    [
        {"Service": {"ExecStart": "/bin/true"}},
        pytest.param({"Service": {"KillMode": "process"}}, id="B02-KillMode"),
        pytest.param({"Service": {"TimeoutStopSec": 3}}, id="B03-TimeoutStopSec"),
        {"Service": {"Restart": "on-failure"}},
        {"Service": {"User": "1000"}},
        {"Socket": {"ListenStream": 1}},
    ],
)
def test_an_override_that_would_strand_the_node_is_refused(overrides: dict[str, dict[str, t.Any]]) -> None:
    with pytest.raises(ModelopsError):
        render.unit_with_overrides(SECTIONS, overrides)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("TimeoutSec", 3, "TimeoutStopSec as well"),
        ("ExecStop", "/bin/sleep 600", "what is left of serve_stop_timeout"),
        ("KillSignal", "SIGKILL", "on SIGTERM"),
        ("KillSignal", 2, "on SIGTERM"),
        ("RestartKillSignal", "SIGINT", "on SIGTERM"),
        ("FinalKillSignal", "SIGTERM", "keep the GPUs"),
        ("SendSIGKILL", False, "keep the GPUs"),
        ("SendSIGKILL", "no", "keep the GPUs"),
        ("RemainAfterExit", True, "nothing would restart it"),
        ("RemainAfterExit", "Yes", "nothing would restart it"),
        ("PrivateDevices", "on", "devices of the GPUs"),
        ("WatchdogSec", 30, "no sign of life"),
        ("RuntimeMaxSec", "1d", "while it serves"),
        ("RestartPreventExitStatus", 0, "status 0 when its engine dies"),
        ("RestartPreventExitStatus", "2 0", "status 0 when its engine dies"),
        ("RestartPreventExitStatus", [2, "SUCCESS"], "status 0 when its engine dies"),
        ("UnsetEnvironment", "LD_PRELOAD VLLM_API_KEY", "without its key"),
        ("UnsetEnvironment", ["'VLLM_API_KEY=x'"], "without its key"),
        ("UnsetEnvironment", "CUDA_VISIBLE_DEVICES", "GPUs of others"),
    ],
)
def test_an_override_that_gets_around_what_is_kept_is_refused_with_the_reason(key: str, value: t.Any, why: str) -> None:
    with pytest.raises(ModelopsError, match=rf"serve_unit_overrides must not (set|change) {key}.*{why}"):
        render.unit_with_overrides(SECTIONS, {"Service": {key: value}})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("KillSignal", "SIGTERM"),
        ("KillSignal", 15),
        ("FinalKillSignal", "SIGKILL"),
        ("ExecStopPost", "/bin/true"),
        ("SendSIGKILL", True),
        ("RemainAfterExit", "no"),
        ("PrivateDevices", False),
        ("WatchdogSec", 0),
        ("RuntimeMaxSec", "infinity"),
        ("RestartPreventExitStatus", "2 10"),
        ("RestartPreventExitStatus", None),
        ("UnsetEnvironment", "LD_PRELOAD"),
        ("TimeoutStartSec", 120),
    ],
)
def test_the_same_directives_with_other_values_are_taken(key: str, value: t.Any) -> None:
    assert render.unit_with_overrides(SECTIONS, {"Service": {key: value}})["Service"][key] == value


def test_other_overrides_win_and_leave_the_input_alone() -> None:
    merged = render.unit_with_overrides(SECTIONS, {"Service": {"KillMode": "mixed", "Nice": 5}, "Unit": {"After": "x"}})
    assert merged["Service"] == {"Type": "exec", "KillMode": "mixed", "TimeoutStopSec": 120, "Nice": 5}
    assert SECTIONS["Service"]["KillMode"] == "control-group"


def verify(tmp_path: Path, text: str) -> subprocess.CompletedProcess[str]:
    unit = tmp_path / "vllm-x.service"
    unit.write_text(text, encoding="utf-8")
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed here")
def test_systemd_reads_the_unit_without_a_remark(tmp_path: Path) -> None:
    merged = render.unit_with_overrides(SECTIONS, {})
    merged["Unit"]["RequiresMountsFor"] = render.quote("/srv/my models/100%")
    merged["Service"]["Environment"] = render.unit_environment({"A": NASTY, "B": "x"})
    merged["Service"]["ExecStart"] = render.exec_line(["/bin/echo", NASTY, "100%", "$HOME"])
    good = verify(tmp_path, render.unit(merged))
    assert (good.returncode, good.stderr) == (0, "")
    merged["Service"]["Misspelt"] = "x"
    assert "Misspelt" in verify(tmp_path, render.unit(merged)).stderr


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/lib/systemd/systemd").exists() or os.geteuid() != 0, reason="needs systemd, and root to be somebody else"
)
@pytest.mark.case("B04")
def test_systemd_itself_reads_command_and_environment_back() -> None:
    # The manager, started as a plain user with --test, dumps what it has read.
    merged = render.unit_with_overrides(SECTIONS, {})
    merged["Service"]["ExecStart"] = render.exec_line(["/bin/echo", NASTY, '{"a": "b c"}', "100%", "$HOME", "\\t"])
    merged["Service"]["Environment"] = render.unit_environment({"A": NASTY})
    with tempfile.TemporaryDirectory() as home:
        unit = Path(home, "vllm-roundtrip.service")
        unit.write_text(render.unit(merged), encoding="utf-8")
        os.chown(home, NOBODY, NOBODY)
        dump = subprocess.run(
            ["/lib/systemd/systemd", "--test", "--user", f"--unit={unit.name}"],
            env={"SYSTEMD_UNIT_PATH": f"{home}:", "XDG_RUNTIME_DIR": home, "HOME": home, "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            check=False,
            user=NOBODY,
        ).stdout
    assert f"Environment: A={NASTY}\n" in dump
    (line,) = (x.partition("Command Line: ")[2] for x in dump.splitlines() if "Command Line: /bin/echo" in x)
    # systemd shows words as a shell would want them; $$ is resolved when the command is run.
    assert [word.replace("\\$", "$").replace("$$", "$") for word in shlex.split(line)] == [
        "/bin/echo",
        NASTY,
        '{"a": "b c"}',
        "100%",
        "$HOME",
        "\\t",
    ]
