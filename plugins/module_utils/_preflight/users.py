# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Checks of the service user and of the directories that vLLM and its libraries write to."""

from __future__ import annotations

import os
import pwd
import subprocess
import typing as t

from .._findings import Finding, error, info
from .question import Question
from .storage import nearest

# Where vLLM, PyTorch, Triton, FlashInfer and CUDA keep what they compile and download. The role serve sets all of them
# below its home; an environment of the user may lead elsewhere (vllm#20127, vllm#10185).
CACHES = (
    "HOME",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "HF_HOME",
    "VLLM_CACHE_ROOT",
    "VLLM_CONFIG_ROOT",
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "FLASHINFER_WORKSPACE_BASE",
    "CUDA_CACHE_PATH",
)


def service_user(question: Question) -> list[Finding] | None:
    """Whether it is there, and may write where its libraries will."""
    if not question.user:
        return None
    try:
        account = pwd.getpwnam(question.user)
    except KeyError:
        return [info("user-missing", f"The service user {question.user} is not there yet: the role serve makes it.")]
    findings = []
    for name, path in directories(question.home, question.env):
        if may_write(nearest(path), account) is False:
            findings.append(
                error(
                    "cache-not-writable",
                    f"{question.user} may not write to {path} ({name}).",
                    f"Give it to {question.user}, or leave it to the role serve, which has directories of its own.",
                    variable=name,
                    path=path,
                )
            )
    return findings


def directories(home: str, env: t.Mapping[str, str]) -> list[tuple[str, str]]:
    """(variable, directory) that the role does not make: a home that is there, and what the environment sets."""
    found = [("home", home)] if home and os.path.isdir(home) else []
    found += [(name, str(env[name])) for name in CACHES if str(env.get(name, "")).startswith("/")]
    return found


def may_write(path: str, account: pwd.struct_passwd) -> bool | None:
    """Whether the account may make files in a directory; None when this process may not find out.

    The test is run as that user, so that group memberships, access lists and read-only file systems count.
    """
    groups = os.getgrouplist(account.pw_name, account.pw_gid)
    results = []
    for flag in ("-d", "-w", "-x"):
        try:
            done = subprocess.run(
                ["test", flag, path],
                user=account.pw_uid,
                group=account.pw_gid,
                extra_groups=groups,
                cwd="/",
                check=False,
                stdin=subprocess.DEVNULL,
                timeout=10,
            )
        except (PermissionError, FileNotFoundError, subprocess.TimeoutExpired):
            return None
        results.append(done.returncode == 0)
    return all(results)
