# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The API key of a server, in a form that can stand in a header. Pure."""

from __future__ import annotations

from ._errors import ModelopsError


def clean(key: str | None, option: str = "api_key") -> str | None:
    """The key without white space at its ends, which a block scalar of a vault brings; None without one.

    Raises ModelopsError for a key that no header can hold. What http.client says of one quotes it with escapes, which
    no censor knows again: this message has nothing of it, and the HTTP client never sees it.
    """
    kept = (key or "").strip()
    if not (kept.isascii() and kept.isprintable()):
        raise ModelopsError(
            f"No header can hold {option}, which has a control character or one that is not ASCII.",
            "Give it as one line of ASCII; it is not shown here.",
        )
    return kept or None


def bearer(key: str | None) -> dict[str, str]:
    """The header that carries the key, none without one. Raises ModelopsError as :func:`clean`."""
    cleaned = clean(key)
    return {"Authorization": f"Bearer {cleaned}"} if cleaned else {}
