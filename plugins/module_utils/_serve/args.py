# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The flags of one instance: layers merged, managed flags protected, values that vLLM's config file can carry.

Flags are keyed by their long name without the leading dashes (``max-num-seqs``), as ``vllm serve --config``
wants them. Nothing here knows which flags an installed vLLM has: that is :mod:`flags`.
"""

from __future__ import annotations

import json
import math
import re
import typing as t

from .._findings import Finding, error

Scalar: t.TypeAlias = "bool | int | float | str"
Value: t.TypeAlias = "Scalar | list[Scalar] | dict[str, t.Any]"
Flags: t.TypeAlias = "dict[str, Value]"

# Flags that only the role may set, and the variable that sets them.
FIXED: t.Final[t.Mapping[str, str]] = {
    "model": "serve_model_dir",
    "model-tag": "serve_model_dir",
    "served-model-name": "serve_served_name",
    "host": "serve_host",
    "port": "serve_port",
    "tensor-parallel-size": "serve_layout",
    "pipeline-parallel-size": "serve_layout",
    "data-parallel-size": "serve_layout",
    "enable-expert-parallel": "serve_layout",
    "trust-remote-code": "serve_trust_remote_code",
    "headless": "serve_nodes_group",
    "nnodes": "serve_nodes_group",
    "node-rank": "serve_nodes_group",
    "master-addr": "serve_nodes_group",
    "master-port": "serve_nodes_group",
    "data-parallel-size-local": "serve_nodes_group",
    "data-parallel-address": "serve_nodes_group",
    "data-parallel-start-rank": "serve_nodes_group",
    "data-parallel-rpc-port": "serve_nodes_group",
    # Secrets: in a file that other users of the node can read they would be published.
    "api-key": "serve_api_key",
    "hf-token": "serve_secret_env (as HF_TOKEN)",
    "ssl-keyfile-password": "serve_secret_env",
}

# Flags that the planner must know too. A profile may suggest them; a user sets the variable instead of the flag.
TUNABLE: t.Final[t.Mapping[str, str]] = {
    "max-model-len": "serve_max_model_len",
    "max-num-seqs": "serve_max_num_seqs",
    "gpu-memory-utilization": "serve_gpu_memory_utilization",
    "kv-cache-dtype": "serve_kv_cache_dtype",
}

# Flags that change what has to be waited for: refused until the role can prove the result.
NOT_BUILT: t.Final[t.Mapping[str, str]] = {
    "config": "Put the flags into serve_args.",
    "uds": "Use serve_host and serve_port.",
    "grpc": "Serve HTTP.",
    "grpc-port": "Serve HTTP.",
    "ssl-keyfile": "Put a TLS proxy in front of the loopback address.",
    "ssl-certfile": "Put a TLS proxy in front of the loopback address.",
    "data-parallel-rank": "Use one API server for all engines, or replicas behind the router.",
    "data-parallel-hybrid-lb": "Use one API server for all engines, or replicas behind the router.",
    "data-parallel-external-lb": "Use one API server for all engines, or replicas behind the router.",
    "data-parallel-multi-port-external-lb": "Use one API server for all engines, or replicas behind the router.",
    "prefill-context-parallel-size": "Choose TP, PP, DP and EP with serve_layout.",
    "decode-context-parallel-size": "Choose TP, PP, DP and EP with serve_layout.",
    "distributed-executor-backend": "vLLM's default, mp, is the one that the role can supervise.",
}
# Flags of which one value alone is built, vLLM's default.
ONLY_BUILT: t.Final[t.Mapping[str, str]] = {
    "data-parallel-backend": "mp",
}

_NAME = re.compile(r"[a-z][a-z0-9-]*")
# What a double-quoted YAML scalar folds or refuses, and what a log or a shell would act on.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")
_NUMBER = re.compile(r"-\d+(\.\d*)?|-\.\d+")


class Layout(t.TypedDict):
    """One parallel layout, as layout_info returns it."""

    tp: int
    pp: int
    dp: int
    ep: bool
    replicas: int


def layout_flags(layout: Layout) -> Flags:
    """The flags of one instance of ``layout`` on one node: replicas are instances with the same flags."""
    flags: Flags = {"tensor-parallel-size": layout["tp"]}
    if layout["pp"] > 1:
        flags["pipeline-parallel-size"] = layout["pp"]
    if layout["dp"] > 1:
        flags["data-parallel-size"] = layout["dp"]
    if layout["ep"]:
        flags["enable-expert-parallel"] = True
    return flags


def merge(managed: Flags, profile: t.Mapping[str, t.Any], user: t.Mapping[str, t.Any]) -> tuple[Flags, list[Finding]]:
    """One mapping out of the three layers, and everything that is wrong with them.

    ``user`` wins over ``profile``; null takes a flag of the profile away. ``managed`` wins over a profile, and
    a user who names a managed flag is told which variable to set.
    """
    findings: list[Finding] = []
    merged: Flags = dict(managed)
    for layer, flags in (("the profile", _expand(profile, findings)), ("serve_args", _expand(user, findings))):
        for name, value in flags.items():
            refusal = _refusal(name, value, layer)
            if refusal is not None:
                findings.append(refusal)
            elif name in TUNABLE and name in managed:
                continue
            elif value is None:
                merged.pop(name, None)
            else:
                found = check_value(name, value)
                findings.extend(found)
                if not found:
                    merged[name] = value
    return merged, findings


def _expand(flags: t.Mapping[str, t.Any], findings: list[Finding]) -> dict[str, t.Any]:
    """Long names with dashes; ``a-config.b.c: v`` becomes ``a-config: {b: {c: v}}`` as vLLM itself reads it."""
    expanded: dict[str, t.Any] = {}
    for raw, value in flags.items():
        head, *rest = str(raw).lstrip("-").split(".")
        name = head.replace("_", "-")
        if not _NAME.fullmatch(name) or not all(rest):
            findings.append(
                error(
                    "flag-name",
                    f"{str(raw)!r} is not the name of a vLLM flag.",
                    "Write the long name without dashes in front, for example max-num-batched-tokens.",
                    flag=str(raw),
                )
            )
            continue
        if not rest:
            if name in expanded:
                findings.append(error("flag-twice", f"The flag {name} is given twice.", "Keep one.", flag=name))
            expanded[name] = value
            continue
        node = expanded.setdefault(name, {})
        for key in rest[:-1]:
            node = node.setdefault(key, {}) if isinstance(node, dict) else None
        if not isinstance(node, dict):
            findings.append(
                error("flag-twice", f"{raw} and {name} give the same flag twice.", "Give one mapping.", flag=name)
            )
            continue
        node[rest[-1]] = value
    return expanded


def _refusal(name: str, value: t.Any, layer: str) -> Finding | None:
    if name in FIXED:
        return error(
            "flag-managed",
            f"{name} in {layer} would fight the role, which sets this flag.",
            f"Set {FIXED[name]} and leave {name} out.",
            flag=name,
        )
    if name in TUNABLE and layer == "serve_args":
        return error(
            "flag-managed",
            f"{name} in serve_args would be hidden from the layout check, which needs its value.",
            f"Set {TUNABLE[name]} and leave {name} out.",
            flag=name,
        )
    if name in NOT_BUILT:
        return error("flag-not-built", f"{name} is not built in this version of modelops.vllm.", NOT_BUILT[name])
    if value is not None and value != ONLY_BUILT.get(name, value):
        return error(
            "flag-not-built",
            f"{name} {value!r} is not built in this version of modelops.vllm.",
            f"Leave it out: vLLM's default, {ONLY_BUILT[name]}, is the one that the role can supervise.",
        )
    return None


def check_value(name: str, value: object) -> list[Finding]:
    """Can vLLM's config file carry this value unchanged? (``load_config_file`` of vLLM 0.10 to 0.33)"""
    if name == "compilation-config" and not isinstance(value, dict):
        mapping = _json_mapping(value)
        if mapping is None:
            return [
                error(
                    "flag-bare-scalar",
                    f"compilation-config is {value!r}; vLLM wants an object there, and newer versions refuse a number.",
                    "Write a mapping, for example {mode: 3}, or set optimization-level.",
                    flag=name,
                )
            ]
    if isinstance(value, dict):
        return _check_json(name, value)
    items = value if isinstance(value, list) else [value]
    if not items:
        return [error("flag-empty-list", f"{name} is an empty list, which vLLM ignores.", "Leave it out.", flag=name)]
    findings = []
    for item in items:
        if isinstance(item, dict) and isinstance(value, list):
            findings += _check_json(name, item)
        elif isinstance(item, str):
            findings += _check_text(name, item)
        elif isinstance(item, float) and not math.isfinite(item):
            findings.append(error("flag-value", f"{name} is {item}, not a number.", "Give a finite number.", flag=name))
        elif not isinstance(item, (bool, int, float)) or (isinstance(item, bool) and isinstance(value, list)):
            findings.append(
                error(
                    "flag-value",
                    f"{name} holds {item!r}, a value that a flag cannot have.",
                    "Give a string, a number, true, false, a list of strings, or a mapping for JSON flags.",
                    flag=name,
                )
            )
    return findings


def _json_mapping(value: object) -> dict[str, t.Any] | None:
    if not isinstance(value, str):
        return None
    try:
        decoded = json.loads(value)
    except ValueError:
        return None
    return decoded if isinstance(decoded, dict) else None


def _check_json(name: str, value: t.Mapping[str, t.Any]) -> list[Finding]:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as e:
        return [error("flag-value", f"{name} is no JSON: {e}.", "Use plain strings, numbers, lists, maps.", flag=name)]
    return []


def _check_text(name: str, text: str) -> list[Finding]:
    if _UNSAFE.search(text):
        return [
            error(
                "flag-value",
                f"{name} holds a control character or a line break: {text!r}.",
                "Give one line of printable text.",
                flag=name,
            )
        ]
    if text.startswith("-") and not _NUMBER.fullmatch(text):
        # The file becomes "--flag value", and a value with a dash in front would be read as the next flag.
        return [
            error(
                "flag-value",
                f"{name} is {text!r}; vLLM would read a value that starts with a dash as another flag.",
                "Use a mapping for JSON flags; a value with a dash in front cannot be given in a config file.",
                flag=name,
            )
        ]
    return []
