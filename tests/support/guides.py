# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the guides name, and what there is: variables, playbooks, paths, commands."""

from __future__ import annotations

import re
import shlex
import typing as t
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
GUIDES = sorted((ROOT / "docs" / "docsite" / "rst").glob("guide_*.rst"))
_BLOCK = re.compile(r"( *)\.\. code-block:: ([\w+]+)\s*$")
# Programs that are told by their first words what they shall do.
_SUBCOMMANDS = {
    "ansible-builder": 1,
    "ansible-galaxy": 2,
    "git": 1,
    "make": 1,
    "pip": 1,
    "podman": 1,
    "python": 1,
    "python3": 2,
}
_PLUGIN_TEXT = re.compile(r'^(?:DOCUMENTATION|RETURN) = r"""(.*?)^"""', re.DOTALL | re.MULTILINE)
# A comment: a hash at the start or after a space.
_COMMENT = re.compile(r"(?:^|\s)#\s.*$")


@dataclass(frozen=True)
class Command:
    """One command of a guide, without its comment, as the words that a shell would make of it."""

    guide: str
    words: tuple[str, ...]

    @property
    def playbook(self) -> str:
        """What ansible-playbook runs: a name in the collection, or a path."""
        (name,) = (w for w in self.words if w.startswith("modelops.vllm.") or ("/" in w and w.endswith(".yml")))
        return name

    @property
    def kind(self) -> str:
        """What is run, without what it is run with: ``playbook deploy``, ``make demo``, ``curl``."""
        words = [w for w in self.words if not re.fullmatch(r"[A-Z_]+=.*", w)]
        program = words[0].rpartition("/")[2]
        if program == "ansible-playbook":
            return f"playbook {re.sub(r'^modelops.vllm.|^playbooks/|.yml$', '', self.playbook)}"
        if program == "ansible":
            return f"module {words[words.index('-m') + 1]}"
        return " ".join([program, *words[1 : 1 + _SUBCOMMANDS.get(program, 0)]])


def blocks(path: Path, *languages: str) -> list[str]:
    """The code blocks of a guide in these languages, without their indentation."""
    found: list[str] = []
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        start = _BLOCK.match(line)
        if not start or start[2] not in languages:
            continue
        body = []
        for text in lines[number + 1 :]:
            if text.strip() and not text.startswith(start[1] + " "):
                break
            body.append(text)
        margin = min(len(x) - len(x.lstrip()) for x in body if x.strip())
        found.append("\n".join(x[margin:] for x in body).strip() + "\n")
    return found


def commands(path: Path) -> list[Command]:
    """All commands of a guide. Of a console only what stands after the prompt was typed."""
    texts = blocks(path, "shell", "bash", "sh")
    for console in blocks(path, "console"):
        texts += [line.removeprefix("$ ") for line in console.splitlines() if line.startswith("$ ")]
    return [Command(path.stem, words) for text in texts for words in _words(text)]


def _words(text: str) -> t.Iterator[tuple[str, ...]]:
    """The commands of a shell block; one whose quotes are still open goes on in the next line."""
    pending = ""
    for line in text.replace("\\\n", " ").splitlines():
        pending = f"{pending}\n{_COMMENT.sub('', line)}".strip()
        try:
            words = shlex.split(pending)
        except ValueError:
            continue
        pending = ""
        if words:
            yield tuple(words)
    if pending:
        raise ValueError(f"a quote is not closed: {pending}")


def named(text: str) -> set[str]:
    """What stands between double backticks."""
    return set(re.findall(r"``([^`]+)``", text))


def first_column(path: Path) -> list[str]:
    """The first cell of each row of the list tables of a guide."""
    return re.findall(r"^   \* - (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)


def sources(*patterns: str) -> str:
    """The text of files, as one."""
    files = [f for pattern in patterns for f in sorted(ROOT.glob(pattern)) if f.is_file()]
    return "\n".join(f.read_text(encoding="utf-8") for f in files)


def stems(pattern: str) -> set[str]:
    """Names of files without their suffix."""
    return {f.stem for f in ROOT.glob(pattern)}


def known_variables() -> set[str]:
    """Options of roles, what playbooks read, results that they leave, and names in the documentation of plugins."""
    found: set[str] = set()
    for spec in ROOT.glob("roles/*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(spec.read_text(encoding="utf-8"))["argument_specs"].values():
            found |= set(entry.get("options", {}))
    yaml_texts = sources("playbooks/*.yml", "playbooks/tasks/*.yml", "awx/*.yml")
    found |= set(re.findall(r"\b[a-z]+_[a-z0-9_]+\b", yaml_texts))
    found |= set(re.findall(r"register: (\w+)", sources("roles/*/tasks/*.yml")))
    # Names of before that defaults still read.
    found |= set(re.findall(r"\b(\w+) \| default\(", sources("roles/*/defaults/main.yml")))
    for plugin in [*ROOT.glob("plugins/modules/*.py"), *ROOT.glob("plugins/filter/*.py")]:
        found.add(plugin.stem)
        for text in _PLUGIN_TEXT.findall(plugin.read_text(encoding="utf-8")):
            found |= set(_keys(yaml.safe_load(text)))
    return found


def _keys(data: t.Any) -> t.Iterator[str]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield str(key)
            yield from _keys(value)
