# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""All checks of preflight in their order, each with the ids of what it can find; what of it counts; the verdict."""

from __future__ import annotations

import dataclasses
import typing as t
from dataclasses import dataclass

from .._errors import ModelopsError
from .._findings import Finding, error, has_errors, info
from . import gpus, p2p, storage, system, users
from .question import Question

_SEVERITIES = ("error", "warning", "info")


@dataclass(frozen=True)
class Check:
    """``find`` gives findings, or None where the check does not apply; no function when another module made it."""

    id: str
    ids: tuple[str, ...]
    find: t.Callable[[Question], list[Finding] | None] | None = None


CHECKS: tuple[Check, ...] = (
    Check(
        "gpus",
        (
            "gpu-no-nvidia-smi",
            "gpu-no-driver",
            "gpu-no-devices",
            "gpu-driver-mismatch",
            "gpu-lost",
            "gpu-timeout",
            "gpu-error",
            "gpu-count",
            "gpu-name",
            "gpu-compute-cap",
            "gpu-memory-mib",
            "gpu-link",
            "gpu-partial",
            "gpu-unified-memory",
            "gpu-fabric",
            "gpu-needs-recovery",
            "gpu-memory-faulty",
            "gpu-inforom",
            "gpu-incomplete",
            "gpu-pcie-narrow",
            "gpu-pcie-slow",
            "gpu-bar1-small",
            "gpu-persistence-off",
            "gpu-power-limit",
            "iommu-translated",
            "acs-redirect",
            "p2p-refused",
        ),
    ),
    Check("driver", ("driver-too-old",), gpus.driver),
    Check("visible-devices", ("visible-devices",), gpus.visible_devices),
    Check("vram", ("vram-held", "vram-shared"), gpus.vram),
    Check("peer-access", ("p2p-broken", "p2p-works", "p2p-test-unavailable", "p2p-half-disabled"), p2p.peer_access),
    Check("nodes", ("node-count",), system.nodes),
    Check("vllm", ("vllm-too-old", "vllm-known-bad")),
    Check("layout", ("layout-invalid", "layout-not-judged")),
    Check("disk", ("disk-space",), storage.disk),
    Check("shared-memory", ("shm-small", "shm-stale"), storage.shared_memory),
    Check("systemd", ("systemd-missing",), system.systemd),
    Check("limits", ("limit-nofile", "limit-memlock", "limit-nproc"), system.limits),
    Check("port", ("port-taken", "port-reserved", "address-unusable")),
    Check("clock", ("clock-unsynchronised",), system.clock),
    Check("host-name", ("hostname-loopback",), system.host_name),
    Check("service-user", ("user-missing", "cache-not-writable"), users.service_user),
    Check("tools", ("jit-ninja-missing", "jit-nvcc-missing"), gpus.tools),
)
KNOWN_IDS = tuple(id_ for check in CHECKS for id_ in check.ids)


def require_known(ignore: t.Sequence[str]) -> None:
    """Refuse an id that nothing finds: it would hide nothing and look as if it did."""
    unknown = [name for name in ignore if name not in KNOWN_IDS]
    if unknown:
        raise ModelopsError(
            f"preflight_ignore has {', '.join(map(repr, unknown))}, which no check finds.",
            f"The ids are {', '.join(KNOWN_IDS)}.",
        )


def judge_layouts(info_: t.Mapping[str, t.Any], chosen: str) -> tuple[list[Finding], dict[str, t.Any]]:
    """(findings, the entry of the chosen layout) of a result of layout_info; ``chosen`` is an id or empty.

    What the planner says about layouts that nobody will serve is left out, unless there is no other. Then each reason
    is told of the layout that comes closest.
    """
    layouts = info_.get("layouts")
    if layouts is None:
        return [
            info(
                "layout-not-judged",
                "No layout was judged.",
                "Set preflight_model_config to the model's config.json, and preflight_expected_gpus.",
            )
        ], {}
    entry = next((entry for entry in layouts if entry["id"] == chosen and entry["valid"]), None)
    general = [_from_dict(f) for f in info_.get("findings") or []]
    if entry is not None:
        return [*general, *(_from_dict(f) for f in entry["findings"])], entry
    wanted = ", ".join(layout["id"] for layout in layouts)
    verdict = error(
        "layout-invalid",
        f"None of the layouts can serve the model: {wanted or 'there is none for these GPUs'}.",
        "The other findings say why, and which layouts are valid.",
        layouts=[layout["id"] for layout in layouts],
    )
    return [verdict, *general, *_reasons(layouts)], {}


def _reasons(layouts: t.Iterable[t.Mapping[str, t.Any]]) -> list[Finding]:
    """The errors of the layout with the least weights a GPU, and what only others have: a rule says much the same of
    many layouts."""
    found: list[Finding] = []
    for layout in sorted(layouts, key=lambda x: x.get("weights_gib_per_gpu") or float("inf")):
        said = {f.id for f in found}
        found += [_from_dict(f) for f in layout["findings"] if f["severity"] == "error" and f["id"] not in said]
    return found


def _from_dict(finding: t.Mapping[str, t.Any]) -> Finding:
    """The finding of another module."""
    return Finding(
        finding["id"],
        finding["severity"],
        finding["message"],
        finding.get("remedy", ""),
        finding.get("numbers") or {},
    )


def findings_of(result: t.Mapping[str, t.Any]) -> list[Finding] | None:
    """Those of the result of another module; None when it was not asked."""
    findings = result.get("findings")
    return None if findings is None else [_from_dict(f) for f in findings]


def judge(
    question: Question,
    made: t.Mapping[str, list[Finding] | None],
    ignore: t.Sequence[str] = (),
    checks: t.Sequence[Check] = CHECKS,
) -> dict[str, t.Any]:
    """``{passed, checks, findings, ignored}``: everything at once.

    ``made`` has what other modules found, by the id of the check. The errors of the layout check are ignored together,
    by ``layout-invalid``.
    """
    found = [(check, check.find(question) if check.find else made.get(check.id)) for check in checks]
    softened = iter(p2p.soften([f for _check, findings in found for f in findings or []]))
    results, rows = [], []
    for check, findings in found:
        if findings is None:
            rows.append({"id": check.id, "status": "skipped", "findings": []})
            continue
        marked = [_marked(next(softened), check, ignore) for _finding in findings]
        results += marked
        rows.append({"id": check.id, "status": _status(marked), "findings": [f.id for f, _ignored in marked]})
    return {
        "passed": not has_errors(f for f, _ignored in results),
        "checks": rows,
        "findings": [{**f.as_dict(), "ignored": ignored} for f, ignored in results],
        "ignored": sorted({f.id for f, ignored in results if ignored}),
    }


def _marked(finding: Finding, check: Check, ignore: t.Sequence[str]) -> tuple[Finding, bool]:
    """An ignored error or warning is shown as information that says so."""
    key = "layout-invalid" if check.id == "layout" and finding.severity == "error" else finding.id
    if key not in ignore or finding.severity == "info":
        return finding, False
    message = f"Ignored {finding.severity}: {finding.message}"
    return dataclasses.replace(finding, severity="info", message=message), True


def _status(marked: t.Sequence[tuple[Finding, bool]]) -> str:
    """The worst severity of a check, ``ignored`` when nothing worse than that is left, else ``ok``."""
    worst = min((_SEVERITIES.index(f.severity) for f, _ignored in marked), default=None)
    if worst is None:
        return "ok"
    severity = _SEVERITIES[worst]
    return "ignored" if severity == "info" and any(ignored for _finding, ignored in marked) else severity
