# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The results as CSV, one line a measurement, for spreadsheets and other tools. Pure."""

from __future__ import annotations

import csv
import io
import typing as t

from .compare import flatten
from .figures import Series

# Columns of the load and the verdict, before the figures.
_LEADING: t.Final = ("point.id", "repeat", "valid", "findings", "run", "started_unix", "ended_unix")
# What is in the columns; the identity is the same in each line and stays in points.jsonl.
_PARTS: t.Final = ("point", "metrics", "energy", "cost", "server", "client")
# Spreadsheets run what begins like this; currencies, versions and labels come from outside.
_FORMULA: t.Final = ("=", "+", "-", "@", "\t", "\r")


def csv_table(series: t.Sequence[Series]) -> str:
    """All records with every figure under its dotted name; empty cells are figures that do not exist.

    With more than one series a column says whose the figures are.
    """
    leading = [*(["what"] if len(series) > 1 else []), *_LEADING]
    rows = []
    measured = [(each.label, record) for each in series for result in each.results for record in result.records]
    for label, record in measured:
        row = {name: record.get(name) for name in ("repeat", "valid", "run", "started_unix", "ended_unix")}
        row["what"] = label
        row["findings"] = " ".join(found["id"] for found in record["findings"])
        for part in _PARTS:
            row.update(flatten(record.get(part) or {}, part))
        rows.append({name: value for name, value in row.items() if not isinstance(value, (list, dict))})
    others = sorted({name for row in rows for name in row} - {"what", *_LEADING})
    out = io.StringIO()
    writer = csv.DictWriter(out, [*leading, *others], lineterminator="\n", restval="", extrasaction="ignore")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return out.getvalue()


def _cell(value: t.Any) -> t.Any:
    """The value, where a text could be a formula with a mark that keeps it a text; numbers stay numbers."""
    if not isinstance(value, str):
        return value
    marked = f"'{value}" if value.startswith(_FORMULA) else value
    # The writer quotes the ends of its own lines only, and readers take this one for another.
    return marked.replace("\r", "\n")
