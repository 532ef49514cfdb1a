# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What the module vllm_image does with its parameters."""

from __future__ import annotations

import os
import typing as t

from .._errors import ModelopsError
from .._findings import Finding, as_dicts, error, has_errors, info
from .podman import Podman, Run
from .quadlet import image_reference

if t.TYPE_CHECKING:  # pragma: no cover
    from ansible.module_utils.basic import AnsibleModule


def have_image(module: AnsibleModule, run: Run) -> dict[str, t.Any]:
    """vllm_image: the result to return. Raises ModelopsError for a reference that names no certain image."""
    p = module.params
    reference = image_reference(p["image"], allow_local=p["allow_local"])
    podman = Podman(run)
    findings = podman.judge()
    result: dict[str, t.Any] = {
        "changed": False,
        "reference": reference,
        "present": False,
        "image": None,
        "podman": podman.version(),
    }
    if not has_errors(findings):
        findings += podman.judge_devices(p["devices"]) + podman.judge_volumes(p["volumes"])
        findings += podman.judge_names(p["instance"]) if p["instance"] else []
        image = podman.image(reference)
        # Nothing is fetched for an instance that could not run here anyway.
        if image is None and not has_errors(findings):
            findings += _fetch(module, podman, reference)
            result["changed"] = not has_errors(findings)
            image = podman.image(reference)
        if image is not None:
            findings += podman.judge_image(reference, image)
            result |= {"present": True, "image": image.as_dict()}
    return {**result, "findings": as_dicts(findings), "valid": not has_errors(findings)}


def _fetch(module: AnsibleModule, podman: Podman, reference: str) -> list[Finding]:
    if "@" not in reference:
        return [
            error(
                "image-missing",
                f"There is no image with the id {reference} on this node.",
                "Load it (podman load), or name an image of a registry by its digest.",
            )
        ]
    auth_file: str = module.params["auth_file"] or ""
    if auth_file and not os.access(auth_file, os.R_OK):
        raise ModelopsError(
            f"auth_file is {auth_file}, which is no readable file.",
            f"Write it with podman login --authfile {auth_file}.",
        )
    if module.check_mode:
        return [info("image-pulled", f"{reference} would be pulled.")]
    podman.pull(reference, auth_file)
    return []
