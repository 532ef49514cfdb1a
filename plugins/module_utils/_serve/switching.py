# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What vllm_release and vllm_switch do with their parameters: the shell around staging and switching."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import typing as t

from .._errors import ModelopsError, check_bounds
from .._findings import as_dicts
from .._progress import ProgressFile, run_id, shared_path
from . import deviation, group_switch, render
from .group_switch import GroupSwitch
from .journal import Journal, locked
from .node import Node, run
from .podman import Podman
from .release import Release, Store, mask
from .steps import Limits, SwitchError
from .switch import Switch

if t.TYPE_CHECKING:  # pragma: no cover
    from ansible.module_utils.basic import AnsibleModule

PROGRESS: t.Final = "switch"
_UNIT_DIRS: t.Final[t.Mapping[str, tuple[str, str, str]]] = {
    # engine -> (name in the release, directory that systemd or Quadlet reads, ending there)
    "venv": ("unit.service", "/etc/systemd/system", ".service"),
    "podman": ("unit.container", "/etc/containers/systemd", ".container"),
}
_FACTS: t.Final = (
    "model",
    "model_dir",
    "repo_id",
    "commit",
    "vllm_version",
    "layout",
    "devices",
    "host",
    "port",
    "ports",
    "vram_fraction",
    "question",
    "plan",
)


# -------------------------------------------------------------------------------------------- vllm_release


def stage_release(module: AnsibleModule) -> dict[str, t.Any]:
    """vllm_release: the result to return."""
    p = module.params
    store, node = Store(p["state_dir"]), Node("")
    instance: str = p["instance"]
    unit = (p["unit"] or f"vllm-{instance}").removesuffix(".service")
    name, folder, ending = _UNIT_DIRS[p["engine"]]
    contents = {name: p["unit_text"]}
    files = [{"name": name, "dest": os.path.join(folder, unit + ending), "mode": "0644"}]
    if p["args_text"]:
        contents["args.yaml"] = p["args_text"]
        files.append({"name": "args.yaml", "dest": os.path.join(p["config_dir"], f"{instance}.yaml"), "mode": "0644"})
    staged = group_switch.stage(p, f"{unit}.service")
    contents |= staged.contents
    files += staged.files
    contents["secrets.env"] = render.env_file(p["secrets"])
    files.append({"name": "secrets.env", "dest": os.path.join(p["config_dir"], f"{instance}.env"), "mode": "0600"})
    facts = {key: p[key] for key in _FACTS} | staged.record
    facts |= {
        "instance": instance,
        "service": p["service"] or instance,
        "unit": f"{unit}.service",
        "files": files,
    }
    current = store.linked(instance, "current")
    if module.check_mode:
        release = store.find(contents, facts)
        new = release is None
    else:
        release, new = store.stage(contents, facts, node.date(), lambda work: _verify(p["engine"], work, unit))
    id_, path = (release.id, release.path) if release else ("", "")
    return {
        "changed": new,
        "release": id_,
        "path": path,
        "instance": instance,
        "current": current.id if current else "",
        "last_good": good.id if (good := store.linked(instance, "last_good")) else "",
        "diff": _diff(current, contents) if current is None or current.id != id_ else [],
    }


def _verify(engine: str, work: str, unit: str) -> None:
    """Have systemd or Quadlet read the unit under its own name. Raises ModelopsError with what they say."""
    if engine == "podman":
        with open(os.path.join(work, _UNIT_DIRS[engine][0]), encoding="utf-8") as f:
            refused = [x for x in Podman(run).judge_file(unit, f.read()) if x.severity == "error"]
        if refused:
            raise ModelopsError(refused[0].message, refused[0].remedy)
        return
    folder = tempfile.mkdtemp()
    try:
        path = os.path.join(folder, f"{unit}.service")
        shutil.copy(os.path.join(work, "unit.service"), path)
        rc, out, err = run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", path])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if rc != 0:
        said = " ".join((err or out).split()).replace(folder + "/", "")
        raise ModelopsError(f"systemd refuses the unit {unit}.service: {said}", "Correct serve_unit_overrides.")


def _diff(current: Release | None, contents: t.Mapping[str, str]) -> list[dict[str, str]]:
    """The change of args and unit against what is current; of secrets the names, and which of them change."""
    rows = []
    for name, text in sorted(contents.items()):
        before = ""
        if current is not None and any(f["name"] == name for f in current.files):
            # A damaged release must not keep its repair from being staged.
            with contextlib.suppress(OSError, UnicodeDecodeError):
                before = current.read(name)
        if before == text:
            continue
        shown = _masked(before, text) if name == "secrets.env" else (before, text)
        header = f"{name} (release {current.id if current else 'none'})"
        rows.append({"before_header": header, "after_header": name, "before": shown[0], "after": shown[1]})
    return rows


def _masked(before: str, after: str) -> tuple[str, str]:
    old, new = render.read_env_file(before), render.read_env_file(after)
    changed = {name for name in new if name in old and old[name] != new[name]}
    return (
        "".join(f"{name}=********\n" for name in sorted(old)),
        "".join(f"{name}=********{' (changed)' if name in changed else ''}\n" for name in sorted(new)),
    )


# --------------------------------------------------------------------------------------------- vllm_switch


_BOUNDS: t.Final[t.Mapping[str, tuple[int, int]]] = {
    "ready_timeout": (1, 86400),
    "stop_timeout": (1, 86400),
    "gpu_timeout": (1, 86400),
    "keep_releases": (1, 1000),
}


def switch(module: AnsibleModule) -> None:
    """vllm_switch"""
    p = module.params
    check_bounds(p, _BOUNDS)
    store = Store(p["state_dir"])
    limits = Limits(p["ready_timeout"], p["stop_timeout"], p["gpu_timeout"], p["keep_releases"])
    node = Node(p["nvidia_smi"])
    try:
        if module.check_mode:
            result = _predicted(p, store, GroupSwitch(node, store, limits, lambda _line: None))
        else:
            result = _switch(module, store, node, limits)
    except ModelopsError as e:
        result = {"failed": True, "msg": str(e), "ready": False, **e.result}
    result = _scrubbed(result, store.secrets())
    if result.pop("failed", False):
        module.fail_json(**result)
    module.exit_json(**result)


def _switch(module: AnsibleModule, store: Store, node: Node, limits: Limits) -> dict[str, t.Any]:
    p = module.params
    wanted = {i["instance"]: i["release"] or p["state"] for i in p["instances"]}
    # As long as a switch that fails and goes back may take. Meanwhile the progress of that one is shown.
    patience = 2 * limits.ready + limits.stop + 2 * limits.gpu
    with (
        locked(p["state_dir"], wanted, patience, lambda _line: None),
        ProgressFile(shared_path(PROGRESS), run_id(module.tmpdir)) as progress,
    ):
        start = node.now()
        store.adopt_old(node.date())
        targets = _targets(p, store)
        work = GroupSwitch(node, store, limits, progress.tell)
        try:
            if p["state"] == "stopped":
                work.stop(targets)
            else:
                work.run(targets, together=p["together"])
        except SwitchError as e:
            return {"failed": True, **_failure(p, work, targets, e, round(node.now() - start, 1))}
        result = _result(work, targets, round(node.now() - start, 1))
    return {**result, "ready": p["state"] != "stopped", "cause": None, "log_tail": []}


def _scrubbed(value: t.Any, secrets: t.Collection[str]) -> t.Any:
    """The value without the secrets in its texts: logs of vLLM may hold one."""
    if isinstance(value, str):
        return mask(value, secrets)
    if isinstance(value, dict):
        return {key: _scrubbed(x, secrets) for key, x in value.items()}
    if isinstance(value, list):
        return [_scrubbed(x, secrets) for x in value]
    return value


def _targets(p: t.Mapping[str, t.Any], store: Store) -> list[Release]:
    """The releases that ``instances`` and ``state`` mean. Raises ModelopsError for one that is not there."""
    if p["state"] == "stopped":
        names = [name for i in p["instances"] for name in _service(store, i["instance"])]
        return [r for name in names if (r := store.linked(name, "current")) is not None]
    if p["state"] == "rolled_back":
        back = (r for i in p["instances"] for r in _earlier(store, i["instance"], i["release"]))
        return list({r.instance: r for r in back}.values())  # two instances of a service mean the same
    return [store.get(i["instance"], i["release"]) for i in p["instances"]]


def _service(store: Store, name: str) -> list[str]:
    """The instances of a service: itself and its replicas."""
    found = []
    for instance in store.instances():
        current = store.linked(instance, "current")
        if instance == name or (current is not None and current.service == name):
            found.append(instance)
    return found


def _earlier(store: Store, name: str, id_: str) -> list[Release]:
    """What a rollback of a service goes back to: ``id_`` and what served with it, or what did before the last switch.

    ``name`` is that of the service or of one of its instances: these serve together, so they go back together.
    """
    current = store.linked(name, "current")
    service = name if current is None else current.service
    last = Journal(store.state_dir).recall(service)
    if id_:
        return _named(store, service, id_, [last.before, last.targets] if last is not None else [])
    if last is not None:
        return [store.get(instance, release) for instance, release in last.before.items()]
    instances = _service(store, service)
    if len(instances) > 1:
        raise ModelopsError(
            f"Nothing in {store.state_dir} says what the service {service} was before its last switch: it has the"
            f" instances {', '.join(instances)}.",
            "Nothing was touched. Deploy the model and the layout that shall serve.",
        )
    previous = store.previous(instances[0]) if instances else None
    if previous is None:
        raise ModelopsError(
            f"The instance {name} has no earlier release that has proven itself in {store.state_dir}.",
            "Deploy the model that shall serve, or name a release that was staged.",
        )
    return [previous]


def _named(store: Store, service: str, id_: str, sets: t.Sequence[t.Mapping[str, str]]) -> list[Release]:
    """The release ``id_`` of a service with what served beside it, if one of the ``sets`` {instance: id} holds it."""
    for together in sets:
        if id_ in together.values():
            return [store.get(instance, release) for instance, release in together.items()]
    instances = _service(store, service) or [service]
    if len(instances) == 1:
        return [store.get(instances[0], id_)]
    release = next((r for instance in instances for r in store.releases(instance) if r.id == id_), None)
    if release is not None and release.instance == service:
        return [release]  # no replica: it served alone
    known = "; ".join(f"{i}: {', '.join(r.id for r in store.releases(i))}" for i in instances)
    if release is None:
        raise ModelopsError(
            f"The service {service} has no release {id_!r} in {store.state_dir}; there are: {known}.",
            "Choose one of them, or deploy a new one.",
        )
    remembered = " or ".join(", ".join(f"{i} {r}" for i, r in together.items()) for together in sets if together)
    raise ModelopsError(
        f"Release {id_} is one of {release.instance} alone, and the service {service} has several instances: nothing"
        f" says which releases of the others served with it. There are: {known}.",
        (f"What is known to have served together: {remembered}. " if remembered else "")
        + "Deploy the model and the layout that shall serve; nothing was touched.",
    )


def _predicted(p: t.Mapping[str, t.Any], store: Store, work: Switch) -> dict[str, t.Any]:
    """What check mode can say: whether a run would change something."""
    if p["state"] == "switched" and not all(i["release"] for i in p["instances"]):
        changed = True  # the release would be staged first
    else:
        would = work.would_stop if p["state"] == "stopped" else work.would_change
        changed = would(_targets(p, store))
    return {"changed": changed, "ready": None, "seconds": 0.0, "instances": [], "stopped": [], "findings": []}


def _result(work: Switch, targets: t.Sequence[Release], seconds: float) -> dict[str, t.Any]:
    report = work.report
    rows: list[dict[str, t.Any]] = []
    findings = list(report.findings)
    for release in targets:
        outcome = report.outcomes.get(release.unit)
        engine = outcome.engine if outcome else {}
        if outcome and outcome.ready:
            findings += outcome.findings
            findings += deviation.compare(release.record.get("plan") or {}, engine)
        rows.append({**release.summary(), "engine": engine, "seconds": outcome.seconds if outcome else None})
    return {
        "changed": report.changed,
        "seconds": seconds,
        "seconds_without_service": report.silence,
        "stopped": report.stopped,
        "pruned": report.pruned,
        "instances": rows,
        "findings": as_dicts(findings),
    }


def _failure(
    p: t.Mapping[str, t.Any], work: Switch, targets: t.Sequence[Release], failure: SwitchError, seconds: float
) -> dict[str, t.Any]:
    """Both stories: why the new release failed, and what serves now."""
    cause, tail = failure.cause.as_dict(), failure.log_tail
    back, units = work.report.back, ", ".join(r.unit for r in targets)
    waits = [work.report.outcomes[r.unit].seconds for r in back if r.unit in work.report.outcomes]
    if p["state"] == "stopped":
        how = "is stopped" if cause["id"] == "gpu-not-free" else "may still run"
        story = f"{units} {how} [{cause['id']}]: {cause['line']}\n{cause['remedy']}"
    else:
        if failure.nothing_serves:
            state = f"NOTHING SERVES on {units}. What served before did not come back: {failure.nothing_serves}"
        elif back:
            who = ", ".join(f"{r.unit} with release {r.id}" for r in back)
            gap = "" if work.report.silence is None else f" after {work.report.silence} s without service"
            state = f"The last good release serves again{gap}: {who}."
        else:
            state = f"{units} is stopped and not enabled: there is no earlier release to go back to."
        story = f"{state}\nThe new release failed [{cause['id']}]: {cause['line']}\n{cause['remedy']}"
    return {
        "msg": story + ("\nThe last lines of the journal:\n" + "\n".join(tail) if tail else ""),
        "ready": False,
        "cause": cause,
        "log_tail": tail,
        "rollback": {
            "serves": [r.summary() for r in back],
            "seconds": max(waits, default=None),
            "nothing_serves": bool(failure.nothing_serves),
        },
        **_result(work, targets, seconds),
    }
