# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Tables for a terminal, of a fixed width font."""

from __future__ import annotations

import typing as t


def aligned(rows: t.Sequence[t.Sequence[str]], left: t.Collection[int]) -> list[str]:
    """A line a row, two spaces between columns: those of ``left`` begin alike, the others (numbers) end alike."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(f"{c:<{w}}" if i in left else f"{c:>{w}}" for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    )
    return [line.rstrip() for line in lines]


def number(value: float | None, digits: int = 0) -> str:
    """With commas between thousands; a dash for what is not known."""
    return "-" if value is None else f"{value:,.{digits}f}"
