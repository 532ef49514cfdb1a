# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What the server says about itself before anything is measured, and what its first answers teach."""

from __future__ import annotations

import math
import random
import secrets
import typing as t

from .._errors import ModelopsError
from .._findings import Finding, warning
from . import api, dataset
from .measure import Facts, Options
from .verses import VERSES

# The readiness completion: long enough to learn how many characters make a token, short enough for any context.
_PROBE_CHARACTERS: t.Final = 64
_PROBE_VERSES: t.Final = 512
# A chat is asked twice: the difference tells how long a text is, and the rest is the chat template's.
_CHAT_PROBE_FACTOR: t.Final = 4
_PROBE_TOKENS: t.Final = 8
_READY_TIMEOUT_S: t.Final = 120.0


def ask(options: Options) -> tuple[Facts, list[Finding]]:
    """The model list, the version, and one real completion; and what of it is noteworthy. Raises ModelopsError when the
    server does not serve the model as it must."""
    server, model = options.server, options.target.model
    findings = []
    status, document = api.get_json(server, "/v1/models")
    max_model_len = None
    if status == 404:
        findings.append(
            warning(
                "model-list-missing",
                f"{server.url}/v1/models answers 404, so the context length is not checked.",
                "Measure the vLLM server directly.",
            )
        )
    else:
        max_model_len = _model_length(server, model, status, document)
    _status, version = api.get_json(server, "/version")
    lengths, tokens_per_event = _lengths(options)
    facts = Facts(
        max_model_len=max_model_len,
        version=str(version["version"]) if isinstance(version, dict) and version.get("version") else None,
        lengths=lengths,
        tokens_per_event=tokens_per_event,
    )
    return facts, findings


def _lengths(options: Options) -> tuple[dataset.Lengths, float]:
    """How long prompts are in tokens, and the tokens an event, out of real answers. Raises ModelopsError for none."""
    # Verses have other tokens than random letters, and an example of theirs must be long enough to tell how long.
    characters = _PROBE_VERSES if options.dataset == "text" else _PROBE_CHARACTERS
    tokens, tokens_per_event = _probe(options, characters)
    if options.target.endpoint == "chat":
        longer, _same = _probe(options, _CHAT_PROBE_FACTOR * characters)
        each = max(1, longer - tokens) / ((_CHAT_PROBE_FACTOR - 1) * characters)
        return dataset.Lengths(1 / each, max(0, round(tokens - each * characters))), tokens_per_event
    return dataset.Lengths(characters / tokens, vocabulary=_vocabulary(options)), tokens_per_event


def _probe(options: Options, characters: int) -> tuple[int, float]:
    """(tokens of a prompt of so many characters, tokens an event of its answer)."""
    server, target = options.server, options.target
    make = dataset.verses if options.dataset == "text" else dataset.random_text
    prompt = make(random.Random(secrets.randbits(64)), characters)
    timeout = min(options.timeout, _READY_TIMEOUT_S)
    answer = api.complete(server, target.model, prompt, _PROBE_TOKENS, timeout, endpoint=target.endpoint)
    if answer.kind:
        raise ModelopsError(
            f"The server at {server.url} did not answer a completion of {target.model!r} as it must: {answer.problem}.",
            "Look at the server's log; nothing was measured.",
        )
    return answer.prompt_tokens or characters, answer.tokens_per_event


def _vocabulary(options: Options) -> tuple[int, ...]:
    """Ids of ordinary tokens, as the server itself makes them out of text; none when it does not tell."""
    rng = random.Random(0)
    text = " ".join(VERSES) + dataset.random_text(rng, _PROBE_VERSES)
    asked = {"model": options.target.model, "prompt": text, "add_special_tokens": False}
    status, document = api.post_json(options.server, "/tokenize", asked)
    tokens = document.get("tokens") if status == 200 and isinstance(document, dict) else None
    whole = isinstance(tokens, list) and all(isinstance(token, int) for token in tokens)
    return tuple(sorted(set(tokens))) if tokens and whole else ()


def _model_length(server: api.Server, model: str, status: int, document: t.Any) -> int | None:
    """``max_model_len`` of the served model; raises ModelopsError when the server does not serve it."""
    if status == 0:
        raise ModelopsError(f"No server answers at {server.url}.", "Start it, or correct url.")
    if status in (401, 403):
        raise ModelopsError(f"The server at {server.url} refuses the key (HTTP {status}).", "Set api_key to its key.")
    if status != 200 or not isinstance(document, dict) or not isinstance(document.get("data"), list):
        raise ModelopsError(
            f"{server.url}/v1/models answers HTTP {status} and no list of models.", "Point url at a vLLM server."
        )
    entries = {str(entry.get("id")): entry for entry in document["data"] if isinstance(entry, dict)}
    if model not in entries:
        raise ModelopsError(
            f"The server at {server.url} does not serve {model!r} but {', '.join(sorted(entries)) or 'nothing'}.",
            "Set model to a served name.",
        )
    length = entries[model].get("max_model_len")
    return int(length) if isinstance(length, (int, float)) and math.isfinite(length) else None
