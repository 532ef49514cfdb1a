# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The three files of a release as text: args (YAML), secrets (environment file), unit (systemd).

Pure functions; every value survives the parser that reads it: PyYAML, systemd's unit parser with its quoting,
``%`` and ``$``, and systemd's environment file parser.
"""

from __future__ import annotations

import json
import re
import typing as t
from dataclasses import dataclass

from .._errors import ModelopsError
from .args import Flags, Value

HEADER: t.Final = "# Written by modelops.vllm: changes made here are lost.\n"
# How files of this collection begin; the second is that of 1.0.0.
OURS: t.Final = ("# Written by modelops.vllm", "# Written by the role modelops.vllm.")

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ENV_LINE = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="(.*)"')
_UNIT_KEY = re.compile(r"[A-Z][A-Za-z0-9]*")
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_./:=@,+-]+")
_CONTROL = re.compile("[\x00-\x1f\x7f]")


def args_yaml(flags: Flags) -> str:
    """The file for ``vllm serve --config``.

    Mappings are written as compact JSON text, which each vLLM since 0.10 hands to its own JSON parser; older ones
    print a YAML mapping as a Python dict first. JSON scalars are YAML scalars, so no YAML library is needed.
    """
    lines = [f"{name}: {_yaml_value(value)}\n" for name, value in flags.items()]
    return HEADER + "".join(lines)


def _yaml_value(value: Value) -> str:
    if isinstance(value, dict):
        return _quote_json(_compact(value))
    if isinstance(value, list):
        return "[" + ", ".join(_quote_json(_compact(v) if isinstance(v, dict) else v) for v in value) + "]"
    return _quote_json(value)


def _compact(value: t.Mapping[str, t.Any]) -> str:
    # ASCII only: escapes inside JSON cannot be touched by any reader in between.
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _quote_json(value: t.Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def env_file(env: t.Mapping[str, t.Any]) -> str:
    """Text for ``EnvironmentFile=``: double-quoted, with the four characters escaped that systemd unescapes there."""
    lines = []
    for name in sorted(env):
        value = _env_value(name, env[name])
        escaped = re.sub(r'(["\\`$])', r"\\\1", value)
        lines.append(f'{name}="{escaped}"\n')
    return HEADER + "".join(lines)


def read_env_file(text: str) -> dict[str, str]:
    """The variables of a file that :func:`env_file` has written."""
    # Not splitlines(), which ends a line at characters that a value may hold, as U+2028.
    rows = (_ENV_LINE.fullmatch(line) for line in text.split("\n"))
    return {row[1]: re.sub(r'\\(["\\`$])', r"\1", row[2]) for row in rows if row}


def _env_value(name: str, value: t.Any) -> str:
    """The value as text. The value is never quoted in a message: it may be a secret."""
    if not _ENV_NAME.fullmatch(name):
        raise ModelopsError(f"{name!r} is not the name of an environment variable.", "Use letters, digits and _.")
    if isinstance(value, bool) or value is None or not isinstance(value, (str, int, float)):
        raise ModelopsError(
            f"The environment variable {name} has a value of type {type(value).__name__}.",
            "Quote the value as the string that the program shall see.",
        )
    text = str(value)
    if _CONTROL.search(text):
        raise ModelopsError(f"The value of the environment variable {name} holds a control character.", "Remove it.")
    return text


def unit_environment(env: t.Mapping[str, t.Any]) -> list[str]:
    """Values for ``Environment=``, one variable each, quoted for systemd."""
    return [quote(f"{name}={_env_value(name, env[name])}") for name in sorted(env)]


def quote(text: str) -> str:
    r"""One word of a directive that takes words: quoted where it must be, ``\`` and ``"`` escaped, ``%`` doubled."""
    if _PLAIN_WORD.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def exec_line(argv: t.Sequence[str]) -> str:
    """``ExecStart=`` for these arguments, literally: no variable is expanded."""
    return " ".join(quote(a).replace("$", "$$") for a in argv)


def unit(sections: t.Mapping[str, t.Mapping[str, t.Any]]) -> str:
    """A unit file from ``{section: {key: value}}``; a list gives the key several times, null leaves it out."""
    blocks = []
    for section, keys in sections.items():
        lines = [f"[{section}]"]
        for key, value in keys.items():
            if not _UNIT_KEY.fullmatch(str(key)):
                raise ModelopsError(f"{key!r} in [{section}] is not the name of a systemd directive.", "Correct it.")
            lines += [f"{key}={_unit_value(section, key, v)}" for v in listed(value)]
        blocks.append("\n".join(lines) + "\n")
    return HEADER + "\n".join(blocks)


def _unit_value(section: str, key: str, value: t.Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if _CONTROL.search(text) or text.endswith("\\"):
        raise ModelopsError(
            f"{key} in [{section}] holds a line break, a control character or ends with a backslash: {text!r}.",
            "systemd reads one line a directive; give a list for several.",
        )
    return text


# What the switch, the stop and the rollback rely on: an override would break the promise silently.
_KEPT: t.Final[t.Mapping[str, str]] = {
    "Type": "the role waits for readiness itself",
    "ExecStart": "serve_vllm_bin and serve_args make it",
    "User": "set serve_user",
    "Group": "set serve_group",
    "EnvironmentFile": "set serve_secret_env",
    "Environment": "set serve_env",
    "Restart": "vLLM exits with status 0 when its engine dies, so only 'always' brings it back",
    "TimeoutStopSec": "set serve_stop_timeout",
    "TimeoutSec": "it is TimeoutStopSec as well: set serve_stop_timeout, and TimeoutStartSec for the start",
    "ExecStop": "vLLM would get its signal after that command alone, and what is left of serve_stop_timeout",
}
_KILL_MODES: t.Final = ("control-group", "mixed")
_YES: t.Final = frozenset({"1", "yes", "y", "true", "t", "on"})
_NO: t.Final = frozenset({"0", "no", "n", "false", "f", "off"})
_TERM: t.Final = frozenset({"sigterm", "term", "15"})
_KILL: t.Final = frozenset({"sigkill", "kill", "9"})
_NEVER: t.Final = frozenset({"0", "infinity"})
_NEEDED_VARIABLES: t.Final = ("VLLM_API_KEY", "CUDA_VISIBLE_DEVICES")


@dataclass(frozen=True)
class _Harm:
    """What some values of a directive break: ``of`` gets the words of the value, in small letters."""

    of: t.Callable[[frozenset[str]], bool]
    why: str


# Directives that are left alone as long as their values harm nothing.
_HARMFUL: t.Final[t.Mapping[str, _Harm]] = {
    "SendSIGKILL": _Harm(lambda words: bool(words & _NO), "workers that outlive their server would keep the GPUs"),
    "KillSignal": _Harm(lambda words: not words <= _TERM, "vLLM ends its requests and its workers on SIGTERM"),
    "RestartKillSignal": _Harm(lambda words: not words <= _TERM, "vLLM ends its requests and its workers on SIGTERM"),
    "FinalKillSignal": _Harm(lambda words: not words <= _KILL, "workers that outlive their server would keep the GPUs"),
    "RemainAfterExit": _Harm(
        lambda words: bool(words & _YES), "a vLLM that has ended would count as running, and nothing would restart it"
    ),
    "PrivateDevices": _Harm(lambda words: bool(words & _YES), "vLLM needs the devices of the GPUs"),
    "WatchdogSec": _Harm(lambda words: not words <= _NEVER, "vLLM tells systemd no sign of life, and would be killed"),
    "RuntimeMaxSec": _Harm(lambda words: not words <= _NEVER, "vLLM would be ended while it serves"),
    "RestartPreventExitStatus": _Harm(
        lambda words: any(word == "success" or (word.isdigit() and int(word) == 0) for word in words),
        "vLLM exits with status 0 when its engine dies, and has to be restarted then",
    ),
    "UnsetEnvironment": _Harm(
        lambda words: any(word.strip("'\"").partition("=")[0].upper() in _NEEDED_VARIABLES for word in words),
        "without these variables it would serve without its key, or on GPUs of others",
    ),
}


def unit_with_overrides(
    sections: t.Mapping[str, t.Mapping[str, t.Any]], overrides: t.Mapping[str, t.Mapping[str, t.Any]]
) -> dict[str, dict[str, t.Any]]:
    """``overrides`` merged over ``sections``; raises ModelopsError for one that would strand the node."""
    merged = {name: dict(keys) for name, keys in sections.items()}
    for section, keys in overrides.items():
        if section not in merged:
            raise ModelopsError(
                f"serve_unit_overrides has the section [{section}], which a service of this role does not have.",
                f"Use {', '.join(merged)}.",
            )
        for key, value in keys.items():
            if section == "Service" and key in _KEPT:
                raise ModelopsError(f"serve_unit_overrides must not change {key}: {_KEPT[key]}.", "Leave it out.")
            if section == "Service" and key == "KillMode" and value not in _KILL_MODES:
                raise ModelopsError(
                    f"serve_unit_overrides sets KillMode={value}, which leaves orphaned workers with the GPUs' memory.",
                    f"Use {' or '.join(_KILL_MODES)}.",
                )
            harm = _HARMFUL.get(key) if section == "Service" else None
            if harm is not None and harm.of(_words(value)):
                raise ModelopsError(f"serve_unit_overrides must not set {key}={value}: {harm.why}.", "Leave it out.")
            merged[section][key] = value
    return merged


def listed(value: t.Any) -> list[t.Any]:
    """The values of a directive: those of a list, a single one, none of null."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _words(value: t.Any) -> frozenset[str]:
    """The words of a directive in small letters: of a text, a number, a truth value, or a list; none of null."""
    return frozenset(word for v in listed(value) for word in str(v).lower().split())
