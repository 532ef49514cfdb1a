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

from . import markdown, page, storage
from .export import csv_table
from .report import Report, build, document, text_table

REPORT_SPEC: t.Final[dict[str, t.Any]] = {
    "results": {"type": "path", "required": True},
    "baseline": {"type": "path"},
    "formats": {"type": "list", "elements": "str", "choices": ["html", "md", "txt", "csv"], "default": ["html", "md"]},
    "dest": {"type": "path"},
}

_RENDERERS: t.Final[dict[str, t.Callable[[Report], str]]] = {
    "html": lambda report: page.render(document(report)),
    "md": lambda report: markdown.render(document(report)),
    "txt": lambda report: f"{text_table(report)}\n",
    "csv": csv_table,
}


def reported(params: t.Mapping[str, t.Any], *, write: bool) -> dict[str, t.Any]:
    """Read, judge and render; write the files that differ when ``write`` is true. Raises ModelopsError.

    Returns the module's result, with ``changed`` and Ansible's ``diff``.
    """
    points_file = storage.find_points(params["results"])
    baseline = storage.latest(storage.read_records(params["baseline"])) if params["baseline"] else None
    report = build(storage.latest(storage.read_records(points_file)), baseline)
    dest = params["dest"] or os.path.dirname(os.path.abspath(points_file))
    changed, files, diffs = False, [], []
    for name in dict.fromkeys(params["formats"]):
        path = os.path.join(dest, f"report.{name}")
        before, after = storage.read_text(path), _RENDERERS[name](report)
        files.append(path)
        if before != after:
            changed = True
            diffs.append({"before_header": path, "after_header": path, "before": before or "", "after": after})
            if write:
                storage.write_text(path, after)
    return {
        "changed": changed,
        "verdict": report.comparison.verdict,
        "headline": report.headline,
        "files": files,
        "table": text_table(report),
        "comparison": [change.as_dict() for change in report.comparison.changes],
        "reasons": report.comparison.reasons,
        "differences": report.comparison.subjects,
        "findings": report.findings,
        "diff": diffs,
    }
