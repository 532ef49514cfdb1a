# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the guides name is there: variables, playbooks, profiles, files, findings, messages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.modelops.vllm.plugins.module_utils._planner.layout import Layout

from tests.support.guides import GUIDES, ROOT, blocks, first_column, known_variables, named, sources, stems

ROLES = {f.name for f in (ROOT / "roles").iterdir()}
PREFIXES = sorted(ROLES | {"plan", "tournament", "stop", "status", "rollback", "awx"})
FOLDERS = ("playbooks", "roles", "plugins", "docs", "molecule", "scripts", "tests", "awx", "meta", "inventories")
PYTHON = sources("plugins/**/*.py")
SAID = " ".join((PYTHON + sources("roles/**/*.yml", "playbooks/**/*.yml")).split())
# Messages that are not ours.
FOREIGN = {
    "skipping: no hosts matched": "ansible-playbook",
    "No available shared memory broadcast block": "vLLM",
    "Connection refused": "the kernel",
}

each_guide = pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)


def without_paths(text: str) -> str:
    """A name inside of a path or address is none of a variable."""
    return re.sub(r"[\w./<>*-]*/[\w./<>*-]*", " ", text)


@pytest.fixture(scope="module")
def variables() -> set[str]:
    return known_variables()


@each_guide
def test_a_variable_of_a_guide_exists(guide: Path, variables: set[str]) -> None:
    text = re.sub(r":(?:ref|ansplugin|ansopt|ansretval):`[^`]*`", " ", without_paths(guide.read_text(encoding="utf-8")))
    found = set(re.findall(rf"\b(?:{'|'.join(PREFIXES)})_[a-z0-9_]*[a-z0-9]\b", text))
    assert found - variables == set()


@each_guide
def test_what_a_guide_names_of_the_collection_exists(guide: Path) -> None:
    known = stems("playbooks/*.yml") | ROLES | stems("plugins/modules/*.py") | stems("plugins/filter/*.py")
    known |= stems("plugins/doc_fragments/*.py")
    text = guide.read_text(encoding="utf-8")
    found = set(re.findall(r"(?<!ansible_collections\.)(?<!modelops/)\bmodelops\.vllm\.(\w+)", text))
    assert found - known == set()


@each_guide
def test_a_profile_of_a_guide_exists(guide: Path) -> None:
    text = guide.read_text(encoding="utf-8")
    assert set(re.findall(r"\bmodel_profile(?:=|: )(\w+)", text)) <= stems("playbooks/vars/models/*.yml")
    assert set(re.findall(r"\bhardware_profile(?:=|: )(\w+)", text)) <= stems("playbooks/vars/hardware/*.yml")


@each_guide
def test_a_file_of_a_guide_exists(guide: Path) -> None:
    words = {w for x in named(guide.read_text(encoding="utf-8")) for w in x.split()}
    paths = {w for w in words if w.startswith(tuple(f"{x}/" for x in FOLDERS)) and "<" not in w}
    assert [p for p in sorted(paths) if not list(ROOT.glob(p))] == []
    files = {w for w in words if re.fullmatch(r"[a-z_]+\.(py|tsv)", w)}
    everything = {p.name for x in FOLDERS for p in (ROOT / x).rglob("*.*")}
    assert files - everything == set()


@each_guide
def test_a_playbook_that_is_named_by_its_file_exists(guide: Path) -> None:
    files = {w for w in named(guide.read_text(encoding="utf-8")) if re.fullmatch(r"[a-z_]+\.yml", w)}
    there = {p.name for x in FOLDERS for p in (ROOT / x).rglob("*.yml")}
    assert files - there - {"main.yml"} == set()


@each_guide
def test_an_id_in_a_table_is_one_that_can_be_found(guide: Path) -> None:
    """Ids of findings and causes stand in the first column; a layout is another kind of name with hyphens."""
    ids = {x for cell in first_column(guide) for x in named(cell) if re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", x)}
    assert {x for x in ids if f'"{x}"' not in PYTHON and not is_layout(x)} == set()


def is_layout(text: str) -> bool:
    return re.match(r"tp\d+", text) is not None and Layout.parse(text).id == text


def test_a_message_of_the_guide_to_trouble_is_printed_somewhere() -> None:
    (guide,) = (g for g in GUIDES if g.stem == "guide_troubleshooting")
    messages = {x for cell in first_column(guide) for x in named(cell) if " " in x}
    assert len(messages) > 5
    assert {x for x in messages if x not in SAID} == set(FOREIGN) & messages


@each_guide
def test_yaml_of_a_guide_is_yaml(guide: Path) -> None:
    for text in blocks(guide, "yaml", "yaml+jinja"):
        assert yaml.load(text, Loader=_Loader)


class _Loader(yaml.SafeLoader):
    """YAML with Ansible's own tags."""


for _tag in ("!unsafe", "!vault"):
    _Loader.add_constructor(_tag, lambda loader, node: loader.construct_scalar(node))


def test_every_guide_is_in_the_table_of_contents_once() -> None:
    toc = yaml.safe_load((ROOT / "docs" / "docsite" / "extra-docs.yml").read_text(encoding="utf-8"))
    listed = [x for section in toc["sections"] for x in section["toctree"]]
    assert sorted(listed) == [g.stem for g in GUIDES]


@each_guide
def test_a_guide_has_the_label_that_others_refer_to(guide: Path) -> None:
    assert f"\n.. _ansible_collections.modelops.vllm.docsite.{guide.stem}:\n" in guide.read_text(encoding="utf-8")


def test_readme_names_all_playbooks_roles_modules_and_guides() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    names = named_in_markdown(text)
    assert {p.name for p in ROOT.glob("playbooks/*.yml")} - names == set()
    assert stems("plugins/modules/*.py") - names == set()
    assert ROLES - names == set()
    assert [g.name for g in GUIDES if f"(docs/docsite/rst/{g.name})" not in text] == []


def test_links_of_the_pages_beside_the_code_lead_to_files() -> None:
    for page in ROOT.glob("*.md"):
        links = re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf-8"))
        assert [x for x in links if not (ROOT / x).exists()] == [], page.name


def named_in_markdown(text: str) -> set[str]:
    """What stands between backticks outside of code blocks."""
    return set(re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)))
