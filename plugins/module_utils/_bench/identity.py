# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What a result is a result of; and the removal of secrets from it. Pure."""

from __future__ import annotations

import re
import typing as t

from .prometheus import Sample

MASK: t.Final = "***"

# Names whose value is a secret; max_num_batched_tokens, tokenizer and the like are none.
_SECRET_NAME = re.compile(r"(?i)(?:^|[_-])(?:api[_-]?key|access[_-]?key|token|password|passwd|secret|authorization)$")
# The same inside a command line or an environment list, and Hugging Face tokens wherever they stand.
_SECRET_ARGUMENT = re.compile(
    r"(?i)((?:--|\b)[\w-]*(?:api[_-]?key|access[_-]?key|[_-]token|password|passwd|secret|authorization)(?:\s*[=:]\s*|\s+))"
    r"(?:bearer\s+)?[^\s'\",]+"
)
_HF_TOKEN = re.compile(r"\bhf_[A-Za-z0-9]{16,}\b")


def redact(text: str, secrets: t.Iterable[str | None] = ()) -> str:
    """``text`` without the given secrets, without Hugging Face tokens and without values of telling options."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, MASK)
    return _HF_TOKEN.sub(MASK, _SECRET_ARGUMENT.sub(lambda m: m.group(1) + MASK, text))


def scrub(value: t.Any, secrets: t.Sequence[str | None] = ()) -> t.Any:
    """A copy of a JSON-like value without secrets: by the names of keys, and inside all strings."""
    if isinstance(value, t.Mapping):
        return {
            str(k): MASK if _SECRET_NAME.search(str(k)) and v not in (None, "") else scrub(v, secrets)
            for k, v in value.items()
        }
    if isinstance(value, (list, tuple)):
        return _scrub_list(value, secrets)
    return redact(value, secrets) if isinstance(value, str) else value


def _scrub_list(values: t.Sequence[t.Any], secrets: t.Sequence[str | None]) -> list[t.Any]:
    """An argv has the name and the value of a secret in two elements."""
    cleaned: list[t.Any] = []
    hide = False
    for value in values:
        cleaned.append(MASK if hide and isinstance(value, str) else scrub(value, secrets))
        hide = isinstance(value, str) and value.startswith("-") and bool(_SECRET_NAME.search(value))
    return cleaned


def build(
    given: t.Mapping[str, t.Any],
    secrets: t.Sequence[str | None],
    *,
    model: str,
    server_version: str | None,
    max_model_len: int | None,
    sample: Sample | None,
    client: t.Mapping[str, t.Any],
    api: str,
    gpus: int | None,
    dataset: str = "random tokens",
    host: t.Mapping[str, t.Any] | None = None,
) -> dict[str, t.Any]:
    """All that must be equal before two results are compared; ``given`` is the user's part, kept under its name.

    ``host`` is only known when the server is on the client's host.
    """
    return {
        "model": model,
        "gpus": gpus,
        "server": {
            "vllm_version": server_version,
            "max_model_len": max_model_len,
            **(dict(sample.settings) if sample else {}),
        },
        "client": dict(client),
        "load": {
            "api": f"{api}, streamed",
            "dataset": dataset,
            "sampling": "temperature 0, ignore_eos",
            "seeds": "one for each run, point and repeat",
        },
        **({"host": dict(host)} if host else {}),
        "given": scrub(given, secrets),
    }
