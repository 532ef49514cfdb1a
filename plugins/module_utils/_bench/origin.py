# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Records of figures that were published, not measured: shown, and never compared. Pure.

A record with ``origin: {kind: published, source: TEXT}`` was written by hand from what somebody has published. Nobody
has validated its requests, so it is no result of this tool, whatever else it says.
"""

from __future__ import annotations

import typing as t

Record = dict[str, t.Any]

_PUBLISHED: t.Final = "published"


def source(records: t.Iterable[Record]) -> str:
    """Where published figures are from; empty when all of the records were measured."""
    origins = (record.get("origin") or {} for record in records)
    sources = (str(found.get("source") or "unknown") for found in origins if found.get("kind") == _PUBLISHED)
    return "; ".join(dict.fromkeys(sources))


def not_claimed(records: t.Iterable[Record]) -> list[str]:
    """What published figures do not say, with the notes of who copied them."""
    notes = dict.fromkeys(note for record in records for note in (record.get("origin") or {}).get("notes") or [])
    return [
        "The figures are those of the source: no request was validated, and nothing is known of noise.",
        "No result is compared with them, and they are no baseline.",
        *map(str, notes),
    ]
