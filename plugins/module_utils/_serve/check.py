# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The gate in front of a switch: merge the args, ask the installed vLLM about them, render the file."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import re
import tempfile
import typing as t
from dataclasses import dataclass, field

from .._findings import Finding, as_dicts, error, has_errors, info, warning
from . import acceptance, render
from .args import Flags, merge
from .flags import Flag, for_config_file, gate, parse_help
from .versions import bad_version, old_version, unguarded
from .vllm_cli import Cli

_COMMIT = re.compile(r"[0-9a-f]{40}")
_DEV_MODE: t.Final = "VLLM_SERVER_DEV_MODE"


@dataclass(frozen=True)
class Question:
    """What shall run: the flags of the role, of the profile, of the user, and the environment beside them."""

    managed: Flags
    profile: t.Mapping[str, t.Any]
    user: t.Mapping[str, t.Any]
    env: t.Mapping[str, t.Any]
    protected: bool
    """True when an API key is set."""
    min_version: str = ""
    bad_versions: t.Sequence[t.Mapping[str, t.Any]] = ()
    """Versions that are known to fail with the model: [{"version": "0.22.0", "why": a sentence}]."""
    stamp: str = ""
    """Path of an earlier stamp; empty for none."""
    stop_timeout: int | None = None
    """Seconds that the unit gives vLLM to stop; None when nobody asked."""
    commit: str | None = None
    """The commit that the manifest of the snapshot proves, empty when it has none; None when nobody asked."""


@dataclass(frozen=True)
class Verdict:
    """The answer. ``content`` is empty when the flags could not be merged."""

    flags: Flags
    content: str
    findings: list[dict[str, t.Any]]
    valid: bool
    stamp: str = ""
    asked: bool = False
    """True when the installed vLLM was asked in this run (not remembered, not absent)."""


@dataclass
class Gate:
    """Judges one question for one installation; ``cli`` is None where vLLM is not installed yet (check mode)."""

    cli: Cli | None
    version: str
    tmpdir: str
    _known: list[Flag] = field(default_factory=list)

    def judge(self, question: Question) -> Verdict:
        """All findings at once. Raises ModelopsError when the installed vLLM cannot be asked at all."""
        merged, findings = merge(question.managed, question.profile, question.user)
        own = self.cli.model_types() if self.cli else frozenset()
        findings += old_version(self.version, question.min_version) + exposure(question)
        findings += dev_mode(question.env)
        findings += model_files(merged, own, self.version) + speculation(merged)
        findings += bad_version(self.version, question.bad_versions)
        findings += unpinned_code(merged, question.commit) + short_stop(merged, question.stop_timeout)
        if self.cli is None:
            findings.append(
                info("vllm-not-asked", "vLLM is not installed here yet: its flags were not checked.", "Run for real.")
            )
            return self._verdict(merged, for_config_file(merged, ()), findings, asked=False)
        who = acceptance.identity(self.cli.binary, self.cli.python, self.version)
        stamp = acceptance.read(question.stamp, who) if question.stamp else None
        self._known = stamp.flags if stamp is not None else parse_help(self.cli.help_text())
        final = for_config_file(merged, self._known)
        findings += gate(final, self._known, self.version)
        if has_errors(findings):
            return self._verdict(merged, final, findings, asked=stamp is None)
        # The environment counts too: vLLM's plugins and parsers come through PYTHONPATH.
        accepted = acceptance.digest(render.args_yaml(final) + json.dumps(dict(question.env), sort_keys=True))
        if stamp is not None and stamp.accepted == accepted:
            remembered = [Finding(**finding) for finding in stamp.findings]
            text = acceptance.write(who, self._known, accepted, stamp.findings)
            return self._verdict(merged, final, findings + remembered, asked=False, stamp=text)
        said = self._parse(final, question.env)
        text = "" if has_errors(said) else acceptance.write(who, self._known, accepted, as_dicts(said))
        return self._verdict(merged, final, findings + said, asked=True, stamp=text)

    def _parse(self, final: Flags, env: t.Mapping[str, t.Any]) -> list[Finding]:
        if self.cli is None:
            return []
        descriptor, path = tempfile.mkstemp(suffix=".yaml", dir=self.tmpdir)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as f:
                f.write(render.args_yaml(final))
            said = self.cli.parse(path, env, final)
        finally:
            os.unlink(path)
        if said is not None:
            return said
        return [
            warning(
                "values-not-checked",
                f"{self.cli.binary} has no Python entry point that could be asked: the names of the flags were checked,"
                " their values were not.",
                "Point serve_vllm_bin at the console script of a venv.",
            )
        ]

    @staticmethod
    def _verdict(
        merged: Flags, final: Flags, findings: t.Sequence[Finding], *, asked: bool, stamp: str = ""
    ) -> Verdict:
        valid = not has_errors(findings)
        return Verdict(merged, render.args_yaml(final) if valid else "", as_dicts(findings), valid, stamp, asked)


def dev_mode(env: t.Mapping[str, t.Any]) -> list[Finding]:
    """Routes of vLLM's developers, by which anyone can put the server to sleep or read its settings."""
    value = str(env.get(_DEV_MODE, "0"))
    if value == "0":
        return []
    return [
        error(
            "dev-mode",
            f"{_DEV_MODE} is {value!r}, which opens /sleep, /pause, /server_info and others to all who reach it.",
            f"Take {_DEV_MODE} out of serve_env: it is not for production.",
        )
    ]


def _loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # another name, which can resolve to anything


def exposure(question: Question) -> list[Finding]:
    """A server that others can reach without a key; and what a key does not protect."""
    host = str(question.managed.get("host", ""))
    if _loopback(host):
        return []
    if question.protected:
        return [
            warning(
                "open-endpoints",
                f"{host} can be reached from outside, and the API key protects /v1 only: /metrics, /tokenize,"
                " /invocations and others stay open.",
                "Serve on 127.0.0.1 behind a proxy with a list of allowed paths.",
                host=host,
            )
        ]
    return [
        warning(
            "open-server",
            f"{host} can be reached from outside and no serve_api_key is set: anyone who reaches it can use the model.",
            "Serve on 127.0.0.1 behind a proxy, or set serve_api_key.",
            host=host,
        )
    ]


def model_files(flags: Flags, own: t.Container[str] = frozenset(), version: str = "") -> list[Finding]:
    """Own code and own chat template of the snapshot, as far as it is there.

    ``own`` are the model types that the installed libraries have classes for: a config.json of one of them needs no
    code, though it names some (MiniMax-M2.5 does). A vLLM that runs it all the same is refused.
    """
    model = str(flags.get("model", ""))
    findings: list[Finding] = []
    config = _json(model, "config.json")
    named = [name for name in ("config.json", "tokenizer_config.json") if _json(model, name).get("auto_map")]
    coded = [name for name in named if name != "config.json" or config.get("model_type") not in own]
    trusted = flags.get("trust-remote-code") is True
    if coded and not trusted:
        findings.append(
            error(
                "remote-code-refused",
                f"{' and '.join(coded)} of {model} name Python code of the repository (auto_map), and"
                " serve_trust_remote_code is false.",
                "Read the code, pin the revision to a commit, and set serve_trust_remote_code to true.",
            )
        )
    if named and not trusted and unguarded(version):
        findings.append(
            error(
                "remote-code-unguarded",
                f"{' and '.join(named)} of {model} name Python code of the repository (auto_map), and vLLM {version}"
                " runs it though serve_trust_remote_code is false (CVE-2026-22807).",
                "Use vLLM 0.14.0 or newer. Or read the code, pin the revision to a commit, and set"
                " serve_trust_remote_code to true.",
                version=version,
            )
        )
    if "chat-template" in flags and os.path.exists(os.path.join(model, "chat_template.jinja")):
        findings.append(
            warning(
                "chat-template-overridden",
                f"chat-template {flags['chat-template']} replaces the chat_template.jinja of the model; the tool parser"
                " expects the tags of the model's own one.",
                "Leave chat-template out.",
            )
        )
    return findings


def unpinned_code(flags: Flags, commit: str | None) -> list[Finding]:
    """Code of the repository runs as the service user: only that of a commit, which somebody can have read."""
    if flags.get("trust-remote-code") is not True or commit is None or _COMMIT.fullmatch(commit):
        return []
    return [
        error(
            "remote-code-unpinned",
            f"serve_trust_remote_code is true, and nothing proves which commit the code in {flags.get('model')} is.",
            "Download it with the role modelops.vllm.weights and weights_revision set to a commit, which writes a"
            " manifest, or set serve_trust_remote_code to false.",
        )
    ]


# vLLM itself waits some 5 s for its engines after its own shutdown timeout; a SIGKILL before that orphans workers.
_STOP_MARGIN = 10


def short_stop(flags: Flags, stop_timeout: int | None) -> list[Finding]:
    """The unit must not kill vLLM while it ends the requests that it was told to end."""
    said = flags.get("shutdown-timeout", 0)
    if stop_timeout is None or isinstance(said, bool) or not isinstance(said, (int, float, str)):
        return []
    try:
        needed = float(said) + _STOP_MARGIN
    except ValueError:
        return []  # vLLM's own parser says so
    if stop_timeout > needed:
        return []
    return [
        error(
            "stop-timeout-short",
            f"serve_stop_timeout is {stop_timeout} s; vLLM may need {needed:.0f} s (shutdown-timeout {said}, and"
            f" {_STOP_MARGIN} s for its engines), and workers that are killed before keep the GPUs.",
            f"Set serve_stop_timeout to more than {needed:.0f}.",
            stop_timeout=stop_timeout,
            needed=needed,
        )
    ]


# Draft tokens of multi-token prediction that pay off, by model_type. GLM-4.6: the second is almost never accepted, and
# tool calls failed with it (vllm#25993); the recipe of GLM-4.7 has one too.
_MTP_TOKENS = {"glm4_moe": 1}


def speculation(flags: Flags) -> list[Finding]:
    """Multi-token prediction where it is known to harm."""
    model_type = _json(str(flags.get("model", "")), "config.json").get("model_type")
    said = flags.get("speculative-config")
    if isinstance(said, str):
        with contextlib.suppress(ValueError):
            said = json.loads(said)
    most = _MTP_TOKENS.get(str(model_type))
    if most is None or not isinstance(said, dict) or "mtp" not in str(said.get("method", "mtp")):
        return []
    findings: list[Finding] = []
    tokens = said.get("num_speculative_tokens", most)
    if isinstance(tokens, int) and tokens > most:
        findings.append(
            warning(
                "speculative-tokens",
                f"speculative-config asks for {tokens} draft tokens; of {model_type} more than {most} are almost never"
                " accepted and cost time.",
                f"Set num_speculative_tokens to {most}, and measure.",
                tokens=tokens,
                most=most,
            )
        )
    if flags.get("enable-auto-tool-choice") is True:
        findings.append(
            warning(
                "speculative-tools",
                f"Tool calls of {model_type} were seen to fail with multi-token prediction on.",
                "Leave speculative-config out where tools are used, or test them.",
            )
        )
    return findings


def _json(directory: str, name: str) -> dict[str, t.Any]:
    try:
        with open(os.path.join(directory, name), encoding="utf-8") as f:
            content = json.load(f)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
