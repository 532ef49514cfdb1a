# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a module of the collection without Ansible's controller: parameters in, the JSON that it prints out.

As a program, ``call_module.py NAME < params.json`` is a process that a test can kill.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
import tempfile
import typing as t

from ansible.module_utils import basic


def run(name: str, params: t.Mapping[str, t.Any], check: bool = False, diff: bool = False) -> None:
    """Call a module's main(), which prints its result and ends with SystemExit."""
    main = importlib.import_module(f"ansible_collections.modelops.vllm.plugins.modules.{name}").main
    args = {
        **params,
        "_ansible_check_mode": check,
        "_ansible_diff": diff,
        "_ansible_remote_tmp": tempfile.gettempdir(),
        "_ansible_keep_remote_files": False,
    }
    with contextlib.ExitStack() as stack:
        try:
            from ansible.module_utils.testing import patch_module_args  # noqa: PLC0415
        except ImportError:  # ansible-core 2.16 and older
            basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": args}).encode()
        else:
            stack.enter_context(patch_module_args(args))
        main()


def call(name: str, params: t.Mapping[str, t.Any], check: bool = False, diff: bool = False) -> dict[str, t.Any]:
    """The result of a module; ``failed`` is set when it failed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        run(name, params, check, diff)
    return t.cast("dict[str, t.Any]", json.loads(out.getvalue().strip().splitlines()[-1]))


if __name__ == "__main__":
    run(sys.argv[1], json.load(sys.stdin))
