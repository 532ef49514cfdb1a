# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The argument specification of ``bench_report``, and the way from its parameters to its result.

Apart from ``entry``: what measures runs on nodes and needs none of what writes pages.
"""

from __future__ import annotations

import os
import typing as t

from .._errors import ModelopsError
from . import markdown, page, plots, report, storage, tournament_entry, tournament_report
from .document import Document
from .export import csv_table
from .figures import Series
from .standings import standings

REPORT_SPEC: t.Final[dict[str, t.Any]] = {
    "results": {"type": "path", "required": True},
    "baseline": {"type": "path"},
    "formats": {"type": "list", "elements": "str", "choices": ["html", "md", "txt", "csv"], "default": ["html", "md"]},
    "dest": {"type": "path"},
}


def reported(params: t.Mapping[str, t.Any], *, write: bool) -> dict[str, t.Any]:
    """Read, judge and render; write the files that differ when ``write`` is true. Raises ModelopsError.

    Returns the module's result, with ``changed`` and Ansible's ``diff``.
    """
    contest = tournament_entry.find(params["results"])
    source, made, result = _of_tournament(contest, params) if contest else _of_run(params)
    dest = params["dest"] or os.path.dirname(os.path.abspath(source))
    changed, files, diffs = False, [], []
    for name in dict.fromkeys(params["formats"]):
        path = os.path.join(dest, f"report.{name}")
        before, after = storage.read_text(path), made[name]()
        files.append(path)
        if before != after:
            changed = True
            diffs.append({"before_header": path, "after_header": path, "before": before or "", "after": after})
            if write:
                storage.write_text(path, after)
    return {"changed": changed, "files": files, "diff": diffs, **result}


def hint(params: t.Mapping[str, t.Any]) -> str:
    """What the user should know about the files that are written; empty when there is nothing."""
    return page.NO_DIAGRAMS if "html" in params["formats"] and plots.MISSING else ""


_Forms = dict[str, t.Callable[[], str]]


def _forms(document: Document, table: str, records: t.Sequence[Series]) -> _Forms:
    return {
        "html": lambda: page.render(document),
        "md": lambda: markdown.render(document),
        "txt": lambda: f"{table}\n",
        "csv": lambda: csv_table(records),
    }


def _of_run(params: t.Mapping[str, t.Any]) -> tuple[str, _Forms, dict[str, t.Any]]:
    source = storage.find_points(params["results"])
    baseline = storage.latest(storage.read_records(params["baseline"])) if params["baseline"] else None
    made = report.build(storage.latest(storage.read_records(source)), baseline)
    table = report.text_table(made)
    comparison = made.comparison
    return (
        source,
        _forms(report.document(made), table, made.series),
        {
            "verdict": comparison.verdict,
            "headline": made.headline,
            "table": table,
            "comparison": [change.as_dict() for change in comparison.changes],
            "reasons": comparison.reasons,
            "differences": comparison.subjects,
            "findings": made.findings,
        },
    )


def _of_tournament(source: str, params: t.Mapping[str, t.Any]) -> tuple[str, _Forms, dict[str, t.Any]]:
    if params["baseline"]:
        raise ModelopsError(
            f"{source} is a tournament, which is not compared with a baseline.",
            "Leave baseline out, or give the results of one candidate.",
        )
    state = tournament_entry.read(source)
    document, table = tournament_report.document(state), tournament_report.text_table(state)
    return (
        source,
        _forms(document, table, tournament_report.series_of(state)),
        {
            "verdict": document.verdict,
            "headline": document.headline,
            "table": table,
            "comparison": [],
            "reasons": [f"{place.candidate}: {place.why}" for place in standings(state)],
            "differences": [],
            "findings": tournament_report.findings_of(state),
        },
    )
