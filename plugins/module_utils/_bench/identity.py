# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What a result is a result of; and the removal of secrets from it. Pure."""

from __future__ import annotations

import contextlib
import json
import re
import typing as t

from .prometheus import Sample

MASK: t.Final = "***"

# Names whose value is a secret; max_num_batched_tokens, tokenizer and the like are none. A bare "token" is one as a key
# or a flag, but not in prose; a key and a pass are ones behind the name of what they open.
_NAMES: t.Final = (
    r"(?:api|access|secret|private)[_-]?keys?|passwords?|passwd|passphrase|secrets?|credentials?|authorization"
)
_OPENS: t.Final = r"(?<=[a-z0-9][_-])(?:key|pass)"
_SECRET_NAME = re.compile(rf"(?i)(?:(?:^|[_.-]|(?-i:(?<=[a-z0-9])(?=[A-Z])))(?:{_NAMES}|token)|{_OPENS})$")

# In a text a secret follows its name, which may be quoted (once more inside of JSON in JSON), behind a colon, an equal
# sign or a space: a quoted text, a list, a mapping, or a word. What is not closed goes on to the end.
_VALUE: t.Final = (
    r"""\\+"(?:(?!\\+").)*\\+"|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|["'][^\n]*|\[[^\]]*\]?|\{[^}]*\}?"""
    r"""|[^\s'",]+(?:,[^\s'",]+)*"""
)
_SECRET_IN_TEXT = re.compile(
    rf"""(?i)((?<![\w.-])[\w.-]*(?:{_NAMES}|(?<=["'_.?&-])token|{_OPENS})(?:\\*["'])?(?:\s*[=:]\s*|\s+(?!-)))(?:bearer\s+)?(?:{_VALUE})"""
)
# A flag has all words up to the next flag, also in an argv that was printed as a list.
_WORD: t.Final = r"""["']?(?!-)[^\s'",\]]+["']?"""
_SECRET_FLAG = re.compile(
    rf"""(?i)((?<![\w.-])--?(?:[\w.-]*[_.-])?(?:{_NAMES}|token|{_OPENS})["']?[ \t,]+){_WORD}(?:[ \t,]+{_WORD})*"""
)
_HF_TOKEN = re.compile(r"\bhf_[A-Za-z0-9]{16,}\b")
_URL_USER = re.compile(r"""(?<=//)[^\s/'"]+(?=@)""")

# A line "key: value" of YAML, and JSON as a whole argument.
_YAML_LINE = re.compile(r"""^(\s*(?:-\s+)?["']?([A-Za-z_][\w.-]*)["']?\s*:)(?:\s+(.*))?$""")
_JSON_ARGUMENT = re.compile(r"(\s*(?:--?[\w.-]+=)?)(?=[\[{])")


def redact(text: str, secrets: t.Iterable[str | None] = ()) -> str:
    """``text`` without the given secrets, Hugging Face tokens, users in URLs, and values of telling options."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, MASK)
    for pattern in (_SECRET_FLAG, _SECRET_IN_TEXT):
        text = pattern.sub(lambda m: m.group(1) + MASK, text)
    return _URL_USER.sub(MASK, _HF_TOKEN.sub(MASK, text))


def is_secret(name: str, value: str) -> bool:
    """Whether a value with this name is, or holds, a secret by what is known of names and forms."""
    return bool(_SECRET_NAME.search(name)) or redact(value) != value


def scrub(value: t.Any, secrets: t.Sequence[str | None] = ()) -> t.Any:
    """A copy of a JSON-like value without secrets: by the names of keys, and inside all strings, which may be JSON, and
    in lists of strings, which may be an argv or the lines of a YAML file."""
    if isinstance(value, t.Mapping):
        return {
            str(k): MASK if _SECRET_NAME.search(str(k)) and v not in (None, "") else scrub(v, secrets)
            for k, v in value.items()
        }
    if isinstance(value, (list, tuple)):
        return _scrub_list(value, secrets)
    return _scrub_text(value, secrets) if isinstance(value, str) else value


def _scrub_text(text: str, secrets: t.Sequence[str | None]) -> str:
    """JSON by its keys, lines as those of YAML, anything else by :func:`redact`."""
    before = _JSON_ARGUMENT.match(text)
    if before:
        with contextlib.suppress(ValueError):
            document = json.loads(text[before.end() :])
            cleaned = scrub(document, secrets)
            return text if cleaned == document else before.group(1) + json.dumps(cleaned)
    if "\n" in text:
        return "\n".join(_scrub_list(text.split("\n"), secrets))
    return redact(text, secrets)


def _scrub_list(values: t.Sequence[t.Any], secrets: t.Sequence[str | None]) -> list[t.Any]:
    """An argv has the name and the values of a secret in several elements, and so have the lines of a YAML list."""
    cleaned: list[t.Any] = []
    ends: t.Callable[[str], t.Any] | None = None
    for value in values:
        text = value if isinstance(value, str) else ""
        if ends and value not in (None, "") and not ends(text):
            cleaned.append(MASK)
            continue
        line = _YAML_LINE.match(text)
        ends = None
        if line and _SECRET_NAME.search(line.group(2)):
            ends = _YAML_LINE.match
            cleaned.append(f"{line.group(1)} {MASK}" if line.group(3) else text)
            continue
        if text.startswith("-") and _SECRET_NAME.search(text):
            ends = _is_flag
        cleaned.append(scrub(value, secrets))
    return cleaned


def _is_flag(argument: str) -> bool:
    return argument.startswith("-")


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
    max_failures: int = 0,
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
            # Left out without a budget, as in results of before 1.1.0.
            **({"max_failures": max_failures} if max_failures else {}),
        },
        **({"host": dict(host)} if host else {}),
        "given": scrub(given, secrets),
    }
