# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""One exception for everything that a user can mend, and one place where it becomes a module failure."""

from __future__ import annotations

import contextlib
import traceback
import typing as t

if t.TYPE_CHECKING:  # pragma: no cover
    from ansible.module_utils.basic import AnsibleModule


class ModelopsError(Exception):
    """Bad input or a fault of the world around us.

    ``message`` names the value and the rule, ``remedy`` what to do about it; ``result`` is the part of the
    work that was done, and is returned beside the failure.
    """

    def __init__(self, message: str, remedy: str = "", **result: t.Any) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.result = result

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class NotBuiltError(ModelopsError):
    """An option or a case that this version refuses because it would have to guess."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what} is not built in this version of modelops.vllm.", remedy)


def check_bounds(params: t.Mapping[str, t.Any], bounds: t.Mapping[str, tuple[float, float]], unit: str = "") -> None:
    """Raise ModelopsError for the first number of ``params`` that is not from low to high; NaN never is."""
    for name, (low, high) in bounds.items():
        if not low <= params[name] <= high:
            raise ModelopsError(f"{name} is {params[name]}; it must be from {low} to {high}{unit}.", "Correct it.")


@contextlib.contextmanager
def guarded(module: AnsibleModule, redact: t.Callable[[str], str] = str) -> t.Iterator[None]:
    """Turn a :class:`ModelopsError` raised inside into ``fail_json`` with its partial result.

    ``redact`` is applied to the message: pass a function that removes secrets where texts of other
    libraries, which may quote a token, can reach the user.
    """
    try:
        yield
    except ModelopsError as e:
        module.fail_json(msg=redact(str(e)), exception=redact(traceback.format_exc()), **e.result)
