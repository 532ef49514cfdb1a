# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What the modules of this part do with their parameters: the shell around the pure core."""

from __future__ import annotations

import os
import typing as t

from .._errors import ModelopsError
from .._findings import as_dicts, has_errors
from . import args, ports
from .check import Gate, Question
from .container_cli import ContainerCli
from .podman import Podman, Sandbox
from .release import Store
from .systemd import Unit
from .versions import release
from .vllm_cli import Cli

if t.TYPE_CHECKING:  # pragma: no cover
    from ansible.module_utils.basic import AnsibleModule


def run_command(
    module: AnsibleModule, argv: t.Sequence[str], env: dict[str, str] | None = None
) -> tuple[int, str, str]:
    """Run a program, with exactly ``env`` when given. A missing program is status 127, as in a shell."""
    if "/" not in argv[0] and module.get_bin_path(argv[0]) is None:
        return 127, "", f"{argv[0]}: not found"
    # The environment of root may hold variables of another vLLM: env -i keeps them out. No secret is in env.
    clean = [] if env is None else ["/usr/bin/env", "-i", *(f"{name}={value}" for name, value in env.items())]
    rc, out, err = module.run_command([*clean, *argv], cwd=module.tmpdir, errors="surrogate_then_replace")
    return int(rc), str(out), str(err)


# ------------------------------------------------------------------------------------------ vllm_args_info


def judge_args(module: AnsibleModule) -> dict[str, t.Any]:
    """vllm_args_info: the result to return."""
    p = module.params
    cli = _cli(module)
    installed = cli is not None
    version: str = cli.version() if cli else p["assume_version"]
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
        bad_versions=p["bad_versions"],
        stamp=p["stamp"] or "",
        stop_timeout=p["stop_timeout"],
        commit=p["commit"],
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


def _cli(module: AnsibleModule) -> Cli | None:
    """The vLLM to ask, that of an image or that of this node; None when it is not here."""
    binary: str = module.params["vllm_bin"]
    said = module.params["container"]
    if said is not None:
        sandbox = Sandbox(said["image"], said["volumes"], said["devices"])
        if Podman(lambda argv: run_command(module, argv)).image(sandbox.image) is None:
            return None
        model = (module.params["managed"] or {}).get("model")
        wrong = Podman.judge_links(model, sandbox.volumes) if model else []
        if wrong:
            raise ModelopsError(wrong[0].message, wrong[0].remedy)
        return ContainerCli(sandbox, binary, lambda argv: run_command(module, argv), module.tmpdir)
    if os.access(binary, os.X_OK) and os.path.isfile(binary):
        return Cli(binary, lambda argv, env: run_command(module, argv, env), module.tmpdir)
    return None


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
    flags |= args.layout_flags(managed["layout"]) | managed["cluster"]
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
    holders = ports.owners(p["host"], p["port"], lambda: run_command(module, ports.ss(p["port"]))[1])
    bind_errno = ports.bind_error(p["host"], p["port"])
    ours = {p["unit"]} if p["unit"] else set()
    if p["state_dir"]:
        ours |= Store(p["state_dir"]).units()
    if bind_errno and not holders:
        # An instance of ours that still loads has bound its port and does not listen yet.
        states = {unit: Unit(unit, lambda argv: run_command(module, argv)).state() for unit in sorted(ours)}
        holders = [ports.Owner(0, "vllm", u) for u, s in states.items() if s.active in ("active", "activating")]
    findings = ports.judge(p["host"], p["port"], ours, bind_errno, holders)
    return {
        "free": not bind_errno,
        "valid": not has_errors(findings),
        "owners": [holder.as_dict() for holder in holders],
        "findings": as_dicts(findings),
    }
