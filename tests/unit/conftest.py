# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures shared by the unit tests."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils import basic

FIXTURES = Path(__file__).parent / "fixtures"


@contextlib.contextmanager
def _module_args(args: dict[str, t.Any]) -> t.Iterator[None]:
    """Give AnsibleModule its arguments, by the test helper of newer cores or by hand on 2.17."""
    try:
        from ansible.module_utils.testing import patch_module_args  # noqa: PLC0415
    except ImportError:
        before = basic._ANSIBLE_ARGS
        basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": args}).encode()
        try:
            yield
        finally:
            basic._ANSIBLE_ARGS = before
    else:
        with patch_module_args(args):
            yield


class ModuleResult(dict[str, t.Any]):
    """The JSON that a module printed; ``rc`` is its exit status."""

    rc: int = 0


@pytest.fixture
def run_module() -> t.Callable[..., ModuleResult]:
    """Run a module's ``main()`` as Ansible does: parameters in, the printed JSON out."""

    def run(name: str, params: dict[str, t.Any], *, check: bool = False, diff: bool = False) -> ModuleResult:
        main = importlib.import_module(f"ansible_collections.modelops.vllm.plugins.modules.{name}").main
        out = io.StringIO()
        args = {**params, "_ansible_check_mode": check, "_ansible_diff": diff, "_ansible_remote_tmp": "/tmp"}
        with _module_args(args), contextlib.redirect_stdout(out), pytest.raises(SystemExit) as stop:
            main()
        result = ModuleResult(json.loads(out.getvalue().strip().splitlines()[-1]))
        result.rc = int(stop.value.code or 0)
        return result

    return run


@pytest.fixture
def load_fixture() -> t.Callable[[str], str]:
    """The text of a file under tests/unit/fixtures."""
    return lambda name: (FIXTURES / name).read_text(encoding="utf-8")
