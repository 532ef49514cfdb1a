# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What the modules of this part do with their parameters: the shell around the pure core."""

from __future__ import annotations

import os
import typing as t
import urllib.parse

from .._errors import ModelopsError
from .._findings import as_dicts, has_errors
from . import args, ports
from .check import Gate, Question, release
from .probe import Answer, ask, requester
from .ready import Outcome, Waiter
from .systemd import Unit
from .vllm_cli import Cli

if t.TYPE_CHECKING:  # pragma: no cover
    from ansible.module_utils.basic import AnsibleModule

_BOUNDS: t.Final[t.Mapping[str, tuple[int, int]]] = {
    "timeout": (1, 86400),
    "poll": (1, 60),
    "completion_timeout": (1, 3600),
}


def _command(module: AnsibleModule, argv: t.Sequence[str], env: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Run a program, with exactly ``env`` when given. A missing program is status 127, as in a shell."""
    if "/" not in argv[0] and module.get_bin_path(argv[0]) is None:
        return 127, "", f"{argv[0]}: not found"
    # The environment of root may hold variables of another vLLM: env -i keeps them out. No secret is in env.
    clean = [] if env is None else ["/usr/bin/env", "-i", *(f"{name}={value}" for name, value in env.items())]
    rc, out, err = module.run_command([*clean, *argv], cwd=module.tmpdir, errors="surrogate_then_replace")
    return int(rc), str(out), str(err)


# ---------------------------------------------------------------------------------------------- vllm_ready


def wait_and_report(module: AnsibleModule) -> None:
    """vllm_ready"""
    p = module.params
    for name, (low, high) in _BOUNDS.items():
        if not low <= p[name] <= high:
            raise ModelopsError(f"{name} is {p[name]}; it must be from {low} to {high}.", "Correct it.")
    check_url(p["url"])
    if module.check_mode:
        module.exit_json(changed=False, **report(Outcome(False, 0.0), "") | {"ready": None})
    key: str | None = p["api_key"]
    request = requester(p["url"], key)

    def ask_once(left: float) -> Answer:
        return ask(request, p["model"], want_sense=p["smoke"], seconds=min(left, p["completion_timeout"]))

    unit = Unit(p["unit"], lambda argv: _command(module, argv)) if p["unit"] else None
    outcome = Waiter(ask_once, unit, p["timeout"], p["poll"]).wait()
    result = report(outcome, key or "")
    if outcome.ready:
        module.exit_json(changed=False, **result)
    cause = result["cause"]
    tail = "\n".join(result["log_tail"])
    module.fail_json(
        changed=False,
        msg=f"Not ready after {outcome.seconds:.0f} s [{cause['id']}]: {cause['line']}\n{cause['remedy']}"
        + (f"\nThe last lines of the journal:\n{tail}" if tail else ""),
        **result,
    )


def check_url(url: str) -> None:
    """An address without credentials, path or query: they would appear in logs. Raises ModelopsError."""
    parts = urllib.parse.urlsplit(url)
    if parts.username or parts.password:
        raise ModelopsError("url holds a user or a password.", "Give the key as api_key.")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.path not in ("", "/"):
        raise ModelopsError(
            f"url is {url!r}, which is no address of a server.", "Write it as http://127.0.0.1:8000, without a path."
        )


def report(outcome: Outcome, secret: str) -> dict[str, t.Any]:
    """The return values of vllm_ready, without ``secret``."""

    def clean(text: str) -> str:
        return text.replace(secret, "********") if secret else text

    cause = outcome.cause
    return {
        "ready": outcome.ready,
        "seconds": outcome.seconds,
        "cause": None if cause is None else {key: clean(value) for key, value in cause.as_dict().items()},
        "log_tail": [clean(line) for line in outcome.log_tail],
        "engine": outcome.engine,
        "unit": None if outcome.unit is None else outcome.unit.as_dict(),
    }


# ------------------------------------------------------------------------------------------ vllm_args_info


def judge_args(module: AnsibleModule) -> dict[str, t.Any]:
    """vllm_args_info: the result to return."""
    p = module.params
    binary: str = p["vllm_bin"]
    installed = os.access(binary, os.X_OK) and os.path.isfile(binary)
    cli = None
    version: str = p["assume_version"]
    if installed:
        cli = Cli(binary, lambda argv, env: _command(module, argv, env), module.tmpdir)
        version = cli.version()
    numbers = release(version)
    result: dict[str, t.Any] = {
        "installed": installed,
        "version": version,
        "release": "" if numbers is None else ".".join(str(n) for n in numbers),
    }
    if p["managed"] is None:
        return result
    question = Question(
        managed=managed_flags(p["managed"]),
        profile=p["profile_args"],
        user=p["user_args"],
        env=p["env"],
        protected=p["protected"],
        min_version=p["min_version"],
        stamp=p["stamp"] or "",
    )
    verdict = Gate(cli, version, module.tmpdir).judge(question)
    return {
        **result,
        "valid": verdict.valid,
        "findings": verdict.findings,
        "args": verdict.flags,
        "content": verdict.content,
        "stamp": verdict.stamp,
        "asked": verdict.asked,
    }


def managed_flags(managed: t.Mapping[str, t.Any]) -> args.Flags:
    """The flags of the role from the suboptions of ``managed``; what is not set is left to vLLM."""
    flags: args.Flags = {}
    for option, flag in (
        ("model", "model"),
        ("served_model_name", "served-model-name"),
        ("host", "host"),
        ("port", "port"),
    ):
        flags[flag] = managed[option]
    flags |= args.layout_flags(managed["layout"])
    for option in ("max_model_len", "max_num_seqs", "gpu_memory_utilization", "kv_cache_dtype"):
        if managed[option] is not None:
            flags[option.replace("_", "-")] = managed[option]
    if managed["trust_remote_code"]:
        flags["trust-remote-code"] = True
    for name in ("model", "served-model-name", "host", "kv-cache-dtype"):
        wrong = args.check_value(name, flags[name]) if name in flags else []
        if wrong:
            raise ModelopsError(wrong[0].message, wrong[0].remedy)
    return flags


# ------------------------------------------------------------------------------------------ vllm_port_info


def judge_port(module: AnsibleModule) -> dict[str, t.Any]:
    """vllm_port_info: the result to return."""
    p = module.params
    ss = ["ss", "-ltnH", "--cgroup", "sport", "=", f":{p['port']}"]
    holders = ports.owners(p["port"], lambda: _command(module, ss)[1])
    bind_errno = ports.bind_error(p["host"], p["port"])
    unit: str = p["unit"]
    if bind_errno and not holders and unit:
        state = Unit(unit, lambda argv: _command(module, argv)).state()
        # An instance of ours that still loads has bound its port and does not listen yet.
        if state.active in ("active", "activating"):
            holders = [ports.Owner(0, "vllm", unit)]
    findings = ports.judge(p["host"], p["port"], unit, bind_errno, holders)
    return {
        "free": not bind_errno,
        "valid": not has_errors(findings),
        "owners": [holder.as_dict() for holder in holders],
        "findings": as_dicts(findings),
    }
