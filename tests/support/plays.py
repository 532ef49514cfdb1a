# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the YAML of roles and playbooks says: all tasks, and the Jinja expressions in them."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass
from pathlib import Path

import yaml
from jinja2 import Environment, nodes

ROOT = Path(__file__).parents[2]
_BLOCKS = ("block", "rescue", "always")
_LISTS = ("tasks", "pre_tasks", "post_tasks", "handlers")
_CONDITIONS = ("when", "until", "failed_when", "changed_when", "that")


@dataclass(frozen=True)
class Task:
    """One task or block, and the file that has it."""

    path: Path
    body: dict[str, t.Any]

    @property
    def name(self) -> str:
        """What it is called in a message of a test."""
        return f"{self.path.relative_to(ROOT)}: {self.body.get('name', '?')}"

    def module(self, *names: str) -> dict[str, t.Any] | None:
        """The arguments of the first of these modules that the task calls."""
        for name in names:
            if name in self.body:
                arguments = self.body[name]
                return arguments if isinstance(arguments, dict) else {"_raw": arguments}
        return None

    def conditions(self) -> list[t.Any]:
        """All conditions of the task: of keywords, and of an assert."""
        places = [self.body, self.module("ansible.builtin.assert") or {}]
        found = [place[key] for place in places for key in _CONDITIONS if key in place]
        return [c for item in found for c in (item if isinstance(item, list) else [item])]


def yaml_files() -> list[Path]:
    """Every YAML file that users run: of roles and of playbooks."""
    files = [*ROOT.glob("roles/**/*.yml"), *ROOT.glob("playbooks/**/*.yml")]
    return sorted(f for f in files if f.parent.name not in ("files", "templates"))


def tasks() -> list[Task]:
    """Every task and block of roles and playbooks, also inside blocks; a role of a play counts for its `when`."""
    found = []
    for path in yaml_files():
        if "vars" in path.relative_to(ROOT).parts or path.parent.name in ("defaults", "meta"):
            continue
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        found += [Task(path, body) for body in _walk(data)]
    return found


def _walk(items: t.Any) -> t.Iterator[dict[str, t.Any]]:
    for item in items if isinstance(items, list) else []:
        if not isinstance(item, dict):
            continue
        yield item
        for key in (*_BLOCKS, *_LISTS, "roles"):
            yield from _walk(item.get(key))


def expressions() -> t.Iterator[tuple[Path, str]]:
    """Every Jinja expression between braces in the YAML of roles and playbooks, with its file."""
    for path in yaml_files():
        for text in _texts(yaml.safe_load(path.read_text(encoding="utf-8"))):
            for inner in text.split("{{")[1:]:
                yield path, inner.split("}}")[0]


def definitions() -> dict[str, list[t.Any]]:
    """What each variable is set to, in vars and defaults of roles and in the vars of tasks and plays."""
    found: dict[str, list[t.Any]] = {}
    files = [f for f in yaml_files() if {"vars", "defaults"} & {f.parent.name, f.parent.parent.name}]
    for source in [
        *(yaml.safe_load(f.read_text(encoding="utf-8")) for f in files),
        *(x.body.get("vars") for x in tasks()),
    ]:
        for name, value in (source or {}).items():
            found.setdefault(name, []).append(value)
    return found


def _texts(data: t.Any) -> t.Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from _texts(key)
            yield from _texts(value)
    elif isinstance(data, list):
        for value in data:
            yield from _texts(value)


def parse(expression: str) -> nodes.Node:
    """The tree of one expression."""
    (output,) = Environment().parse("{{ (" + expression + ") }}").body  # only parsed, never rendered
    return t.cast(nodes.Output, output).nodes[0]
