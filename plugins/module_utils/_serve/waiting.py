# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What vllm_ready does with its parameters: wait, tell how far it is, report."""

from __future__ import annotations

import contextlib
import typing as t
import urllib.parse

from .. import _key
from .._errors import ModelopsError, check_bounds
from .._findings import as_dicts
from .._progress import ProgressFile, own_path, run_id
from . import deviation
from .question import Question
from .ready import Outcome, Waiter
from .shells import run_command
from .systemd import Unit

if t.TYPE_CHECKING:  # pragma: no cover
    from ansible.module_utils.basic import AnsibleModule

_BOUNDS: t.Final[t.Mapping[str, tuple[int, int]]] = {
    "timeout": (1, 86400),
    "poll": (1, 60),
    "completion_timeout": (1, 3600),
    "progress_interval": (0, 86400),
}


def wait_and_report(module: AnsibleModule) -> None:
    """vllm_ready"""
    p = module.params
    check_bounds(p, _BOUNDS)
    check_url(p["url"])
    if module.check_mode:
        module.exit_json(changed=False, **report(Outcome(False, 0.0), {}, "") | {"ready": None})
    api_key = _key.clean(p["api_key"])
    question = Question.from_dict(p, api_key)
    unit = Unit(p["unit"], lambda argv: run_command(module, argv)) if p["unit"] else None
    with _progress(module) as tell:
        outcome = Waiter(question.ask, unit, p["timeout"], p["poll"], tell=tell).wait()
    result = report(outcome, p["plan"] or {}, api_key or "")
    if outcome.ready:
        module.exit_json(changed=False, **result)
    module.fail_json(changed=False, msg=failure(result), **result)


@contextlib.contextmanager
def _progress(module: AnsibleModule) -> t.Iterator[t.Callable[[str], None]]:
    """Where the wait tells how far it is; nowhere when nobody looks."""
    if not module.params["progress_interval"]:
        yield lambda _line: None
        return
    with ProgressFile(own_path(module.tmpdir), run_id(module.tmpdir)) as progress:
        yield progress.tell


def check_url(url: str) -> None:
    """An address without credentials, path or query: they would appear in logs. Raises ModelopsError."""
    parts = urllib.parse.urlsplit(url)
    if parts.username or parts.password:
        raise ModelopsError("url holds a user or a password.", "Give the key as api_key.")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.path not in ("", "/"):
        raise ModelopsError(
            f"url is {url!r}, which is no address of a server.", "Write it as http://127.0.0.1:8000, without a path."
        )


def report(outcome: Outcome, plan: t.Mapping[str, t.Any], secret: str) -> dict[str, t.Any]:
    """The return values of vllm_ready, without ``secret``."""

    def clean(text: str) -> str:
        return text.replace(secret, "********") if secret else text

    cause = outcome.cause
    findings = [*outcome.findings, *deviation.compare(plan, outcome.engine)]
    return {
        "ready": outcome.ready,
        "seconds": outcome.seconds,
        "cause": None if cause is None else {key: clean(value) for key, value in cause.as_dict().items()},
        "log_tail": [clean(line) for line in outcome.log_tail],
        "engine": outcome.engine,
        "findings": as_dicts(findings),
        "unit": None if outcome.unit is None else outcome.unit.as_dict(),
    }


def failure(result: t.Mapping[str, t.Any]) -> str:
    """The message for a report that is not ready: the cause, the remedy, and the end of the journal."""
    cause, tail = result["cause"], "\n".join(result["log_tail"])
    return f"Not ready after {result['seconds']:.0f} s [{cause['id']}]: {cause['line']}\n{cause['remedy']}" + (
        f"\nThe last lines of the journal:\n{tail}" if tail else ""
    )
