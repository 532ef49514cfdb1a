# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""make release, in a checkout of its own: what it refuses, what it makes, and that it leaves the rest alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from checkout import copy_checkout

ROOT = Path(__file__).parents[2]
FEATURE = "---\nminor_changes:\n  - release - a feature of the test.\n"


class Checkout:
    """A repository with the files that git would commit here, and one fragment of a feature."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        copy_checkout(folder, without=("changelogs/fragments/", "molecule/"))
        self.git("init", "-q")
        self.write("changelogs/fragments/feature.yml", FEATURE)

    def git(self, *arguments: str) -> str:
        command = ["git", "-c", "user.name=test", "-c", "user.email=test@example.com", *arguments]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=True).stdout

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)
        self.commit()

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "test")

    def release(self, version: str) -> tuple[int, str]:
        env = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "ANSIBLE_HOME": str(self.folder.parent / "home"),
            # make lint runs it with stricter settings, and here it would be killed on a slow machine.
            "GALAXY_IMPORTER_RUN_ANSIBLE_LINT": "false",
        }
        run = subprocess.run(
            ["scripts/release.sh", version], cwd=self.folder, env=env, capture_output=True, text=True, check=False
        )
        return run.returncode, run.stdout + run.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "checkout")


def last_release() -> tuple[int, int, int]:
    """The last release that the changelog of this checkout has."""
    released = yaml.safe_load((ROOT / "changelogs" / "changelog.yaml").read_text())["releases"]
    return max(tuple(map(int, version.split("."))) for version in released)


MAJOR, MINOR, PATCH = last_release()
NEXT = f"{MAJOR}.{MINOR + 1}.0"


@pytest.mark.parametrize(
    ("version", "fragment", "said"),
    [
        pytest.param("", FEATURE, "is no version such as 1.2.3", id="none"),
        pytest.param("1.1", FEATURE, "VERSION='1.1' is no version", id="two numbers"),
        pytest.param("v1.1.0", FEATURE, "VERSION='v1.1.0' is no version", id="the v of a tag"),
        pytest.param("0.9.9", FEATURE, f"0.9.9 is older than {MAJOR}.{MINOR}.{PATCH}", id="older"),
        pytest.param(f"{MAJOR}.{MINOR}.{PATCH + 1}", FEATURE, "more than the patch", id="a feature in a patch"),
        pytest.param(
            NEXT,
            "---\nbreaking_changes:\n  - x - y.\n",
            f"this is {MAJOR + 1}.0.0, not {NEXT}",
            id="a break in a minor",
        ),
    ],
)
def test_a_version_that_is_none_of_this_release_is_refused(
    checkout: Checkout, version: str, fragment: str, said: str
) -> None:
    checkout.write("changelogs/fragments/feature.yml", fragment)
    code, output = checkout.release(version)
    assert code == 1
    assert said in output
    assert checkout.git("status", "--porcelain") == ""


def test_nothing_to_release_is_refused(checkout: Checkout) -> None:
    (checkout.folder / "changelogs/fragments/feature.yml").unlink()
    checkout.commit()
    code, output = checkout.release(NEXT)
    assert code == 1
    assert "there is nothing to release" in output


def test_a_checkout_with_changes_is_refused_and_they_are_named(checkout: Checkout) -> None:
    (checkout.folder / "plugins" / "stray.py").write_text("x = 1\n")
    code, output = checkout.release(NEXT)
    assert code == 1
    assert "plugins/stray.py" in output


def test_a_release_and_the_same_one_again_from_its_commit(checkout: Checkout) -> None:
    code, output = checkout.release(NEXT)
    assert code == 0, output
    tarball = checkout.folder / "dist" / f"modelops-vllm-{NEXT}.tar.gz"
    assert tarball.stat().st_size < 1_000_000
    with tarfile.open(tarball) as archive:
        names = archive.getnames()
        galaxy = archive.extractfile("MANIFEST.json").read().decode()
        changelog = archive.extractfile("CHANGELOG.rst").read().decode()
    assert f'"version": "{NEXT}"' in galaxy
    assert f"v{NEXT}\n" in changelog
    assert "release - a feature of the test." in changelog
    assert {n.partition("/")[0] for n in names} == {
        *("CHANGELOG.rst", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "COPYING", "README.md", "SECURITY.md"),
        *("FILES.json", "MANIFEST.json", "changelogs", "docs", "meta", "playbooks", "plugins", "roles"),
    }
    # Only what belongs to the release has changed, and nothing was committed or tagged.
    changed = {line[3:] for line in checkout.git("status", "--porcelain").splitlines()}
    assert changed == {"galaxy.yml", "CHANGELOG.rst", "changelogs/changelog.yaml", "changelogs/fragments/feature.yml"}
    assert checkout.git("tag") == ""
    assert re.search(rf"^  git tag -s .* {re.escape(NEXT)} && git push", output, re.MULTILINE)

    checkout.commit()
    tarball.unlink()
    code, output = checkout.release(NEXT)
    assert code == 0, output
    assert tarball.exists()
    assert checkout.git("status", "--porcelain") == ""


def test_what_galaxy_does_not_need_stops_the_release(checkout: Checkout) -> None:
    checkout.write("notes/todo.txt", "later\n")
    code, output = checkout.release(NEXT)
    assert code == 1
    assert "the tarball has what Galaxy does not need: notes." in output
    assert not (checkout.folder / "dist").exists()
    assert checkout.git("status", "--porcelain") == ""


def test_a_file_that_is_left_out_stops_the_release(checkout: Checkout) -> None:
    galaxy = checkout.folder / "galaxy.yml"
    checkout.write("galaxy.yml", galaxy.read_text() + "  - playbooks/tasks/plan.yml\n")
    code, output = checkout.release(NEXT)
    assert code == 1
    assert "leaves out what is needed at run time: playbooks/tasks/plan.yml" in output
