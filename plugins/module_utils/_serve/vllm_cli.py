# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Asks an installed vLLM: its version, its flags, and what its own parser makes of a config file.

The first costs milliseconds (package metadata), the others about ten seconds of one core each, since vLLM imports
torch first; :mod:`acceptance` remembers their result.
"""

from __future__ import annotations

import glob
import json
import os
import re
import typing as t

from .._errors import ModelopsError
from .._findings import Finding, error, warning

Run: t.TypeAlias = t.Callable[[t.Sequence[str], "dict[str, str]"], "tuple[int, str, str]"]

_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?(?:[.+\w]*)")
_DIRECTORY = re.compile(r"(^|_)(HOME|ROOT|DIR|CACHE_PATH|WORKSPACE_BASE)$")
_MARK = "MODELOPS_RESULT "
_SHEBANG_LIMIT = 512

# Runs the real command line up to the point where the engine would start: main(), the subparsers, validate().
_PARSE = f"""
import json, os, sys
import vllm.entrypoints.cli.serve as serve
from vllm.entrypoints.cli.main import main

def stop_here(args):
    plain = (str, int, float, bool, list, dict, type(None))
    values = {{k: v for k, v in vars(args).items() if isinstance(v, plain)}}
    try:
        from vllm.reasoning import ReasoningParserManager
        reasoning = sorted(ReasoningParserManager.list_registered())
    except Exception:
        reasoning = []
    try:
        import vllm.envs
        envs = sorted(vllm.envs.environment_variables)
    except Exception:
        envs = []
    result = {{"args": values, "reasoning": reasoning, "envs": envs}}
    sys.__stdout__.write("\\n{_MARK}" + json.dumps(result, default=str) + "\\n")

serve.ServeSubcommand.cmd = staticmethod(stop_here)
sys.argv = ["vllm", "serve", "--config", sys.argv[1]]
main()
"""


class Cli:
    """One ``vllm`` executable. ``run`` takes argv and environment, and returns status, stdout and stderr."""

    def __init__(self, binary: str, run: Run, home: str) -> None:
        self.binary = binary
        self.python = interpreter(binary)
        self._run = run
        # Offline and quiet, and nothing left behind in root's home.
        self._env = {
            "PATH": os.pathsep.join([os.path.dirname(binary), os.defpath]),
            "HOME": home,
            "XDG_CACHE_HOME": home,
            "LC_ALL": "C.UTF-8",
            "COLUMNS": "200",
            "NO_COLOR": "1",
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
        }

    def version(self) -> str:
        """The version of the distribution vllm beside the executable, else what ``vllm --version`` prints."""
        if self.python:
            code = "import importlib.metadata as m; print(m.version('vllm'))"
            rc, out, _err = self._run([self.python, "-I", "-c", code], self._env)
            if rc == 0 and _VERSION.fullmatch(out.strip()):
                return out.strip()
        rc, out, err = self._run([self.binary, "--version"], self._env)
        found = _VERSION.search(out)
        if rc != 0 or found is None:
            raise ModelopsError(
                f"{self.binary} --version failed with status {rc}: {_tail(err or out)}",
                "The vLLM installation is broken: reinstall it into an empty venv, or correct serve_vllm_bin.",
            )
        return found[0]

    def model_types(self) -> frozenset[str]:
        """The values of model_type for which the installed transformers has classes of its own.

        It takes them, whatever code a repository names beside them, so that code is not needed. Source: transformers
        5.19, dynamic_module_utils.resolve_trust_remote_code, and one folder a model below transformers/models.
        """
        if not self.python:
            return frozenset()
        prefix = os.path.dirname(os.path.dirname(self.python))
        found = glob.glob(
            os.path.join(glob.escape(prefix), "lib*/python3*/site-packages/transformers/models/*/__init__.py")
        )
        return frozenset(os.path.basename(os.path.dirname(path)) for path in found)

    def help_text(self) -> str:
        """``vllm serve --help=all``"""
        rc, out, err = self._run([self.binary, "serve", "--help=all"], self._env)
        if rc != 0:
            raise ModelopsError(
                f"{self.binary} serve --help=all failed with status {rc}: {_tail(err or out)}",
                "The vLLM installation is broken: reinstall it into an empty venv, or correct serve_vllm_bin.",
            )
        return out

    def parse(
        self, config_file: str, env: t.Mapping[str, t.Any], wanted: t.Mapping[str, t.Any]
    ) -> list[Finding] | None:
        """What vLLM's own parser says to the file; None when there is no Python behind the executable to ask.

        Each flag of ``wanted`` must arrive with its value: what the parser drops is an error as well.
        """
        if not self.python:
            return None
        # With the environment of the instance: PYTHONPATH, plugins and switches change what the parser knows.
        # But not its directories: this runs as root, and what it leaves there the service could not write to.
        plain = {name: str(value) for name, value in env.items() if not _DIRECTORY.search(name)}
        environment = {**plain, **self._env}
        rc, out, err = self._run([self.python, "-c", _PARSE, config_file], environment)
        found = next((line for line in reversed(out.splitlines()) if line.startswith(_MARK)), None)
        if rc != 0 or found is None:
            if rc == 0 or _no_such_entry(err):
                return None
            return [
                error(
                    "args-refused",
                    f"The installed vLLM refuses the args: {_reason(err or out)}",
                    "Correct the flag that the message names.",
                )
            ]
        result = json.loads(found[len(_MARK) :])
        return _arrived(result["args"], wanted) + _names(result, env, wanted)


def interpreter(binary: str) -> str:
    """The Python of a console script, from its first line; an empty string for any other executable."""
    try:
        with open(binary, "rb") as f:
            first = f.readline(_SHEBANG_LIMIT).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    if not first.startswith("#!"):
        return ""
    path = first[2:].strip().split(" ")[0]
    return path if "python" in os.path.basename(path) and os.access(path, os.X_OK) else ""


def _no_such_entry(err: str) -> bool:
    """The module layout that the check relies on is not there: another vLLM, not a wrong flag."""
    return bool(re.search(r"(No module named|cannot import name) '?(vllm\.entrypoints|main|ServeSubcommand)", err))


def _reason(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.search(r"error: |Error\b.*:", line)]
    return (named or lines or ["no message"])[-1][:1000]


def _tail(text: str) -> str:
    return text.strip()[-500:] or "no message"


def _arrived(parsed: t.Mapping[str, t.Any], wanted: t.Mapping[str, t.Any]) -> list[Finding]:
    findings = []
    for name, value in wanted.items():
        key = name.replace("-", "_")
        if key in parsed and not _same(parsed[key], value):
            findings.append(
                error(
                    "flag-not-applied",
                    f"{name} is {value!r} in the args and {parsed[key]!r} after vLLM's own parser has read them.",
                    "Report it: the file does not carry this value unchanged.",
                    flag=name,
                )
            )
    return findings


def _same(parsed: t.Any, wanted: t.Any) -> bool:
    if isinstance(wanted, bool):
        return bool(parsed) == wanted
    if isinstance(parsed, list):
        items = wanted if isinstance(wanted, list) else [wanted]
        return len(parsed) == len(items)
    if isinstance(wanted, dict):
        # A dataclass or a validated model comes out of some flags; where it is a mapping, no key may be lost.
        return not isinstance(parsed, dict) or set(wanted) <= set(parsed)
    if isinstance(parsed, (int, float)) and isinstance(wanted, (int, float)):
        return float(parsed) == float(wanted)
    return parsed is not None


def _names(result: t.Mapping[str, t.Any], env: t.Mapping[str, t.Any], wanted: t.Mapping[str, t.Any]) -> list[Finding]:
    findings: list[Finding] = []
    parser = wanted.get("reasoning-parser")
    known = result["reasoning"]
    if parser and known and parser not in known and not wanted.get("reasoning-parser-plugin"):
        findings.append(
            error(
                "flag-choice",
                f"reasoning-parser is {parser!r}, which this vLLM does not know.",
                f"It knows {', '.join(known)}.",
                flag="reasoning-parser",
            )
        )
    unknown = sorted(n for n in env if n.startswith("VLLM_") and result["envs"] and n not in result["envs"])
    findings += [
        warning(
            "env-unknown",
            f"The environment variable {name} is not known to this vLLM, which ignores it.",
            "Remove it; newer versions replaced several variables by flags.",
            name=name,
        )
        for name in unknown
    ]
    return findings
