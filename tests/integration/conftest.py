# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A loopback Hub for each test, and hf_snapshot against it with each huggingface_hub that is at hand."""

from __future__ import annotations

import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parents[1] / "support"
sys.path.insert(0, str(SUPPORT))

from hub_testing import PYTHONS, REPO, Snapshot  # noqa: E402
from loopback_hub import Hub  # noqa: E402
from tiny_files import model  # noqa: E402


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of these tests start servers and other interpreters."""
    for item in items:
        item.add_marker(pytest.mark.slow)


@pytest.fixture
def hub() -> t.Iterator[Hub]:
    """A Hub on loopback that stops with the test."""
    server = Hub().start()
    yield server
    server.stop()


@pytest.fixture
def files(hub: Hub) -> dict[str, bytes]:
    """The files of org/model at its branch main: four shards, an index, and small files."""
    content = model()
    hub.commit(REPO, content)
    return content


@pytest.fixture(params=PYTHONS[-1:], ids=["client"])
def python(request: pytest.FixtureRequest) -> str:
    """An interpreter with huggingface_hub; tests that depend on its version are parametrised over all."""
    return str(request.param)


@pytest.fixture
def snapshot(hub: Hub, tmp_path: Path, python: str) -> Snapshot:
    """hf_snapshot for org/model into a folder that does not exist yet."""
    return Snapshot(hub, tmp_path / "models" / "model", python)


@pytest.fixture
def small_disk(tmp_path: Path) -> t.Iterator[t.Callable[[int], Path]]:
    """Mounts file systems of so many MiB in memory; skipped where mounting is not allowed."""
    mounted: list[Path] = []

    def mount(size: int) -> Path:
        folder = tmp_path / f"disk{len(mounted)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", str(folder)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode:
            pytest.skip(f"a file system cannot be mounted here: {run.stderr.strip()}")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)
