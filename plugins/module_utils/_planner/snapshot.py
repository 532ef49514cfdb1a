# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Reads what the planner needs from a snapshot on disk."""

from __future__ import annotations

import json
import os
import typing as t

from .._errors import ModelopsError

_LIMIT_BYTES = 32 << 20


def read_configs(model_dir: str) -> tuple[dict[str, t.Any], dict[str, t.Any] | None]:
    """(config.json, hf_quant_config.json or None) of a snapshot.

    :raises ModelopsError: when config.json is missing, or one of them is not a JSON object.
    """
    path = os.path.join(model_dir, "config.json")
    if not os.path.isfile(path):
        raise ModelopsError(
            f"model_dir {model_dir!r} has no config.json.", "Give the directory of a snapshot, or config."
        )
    quant = os.path.join(model_dir, "hf_quant_config.json")
    return _read(path), _read(quant) if os.path.isfile(quant) else None


def _read(path: str) -> dict[str, t.Any]:
    try:
        if os.path.getsize(path) > _LIMIT_BYTES:
            raise ModelopsError(f"{path} is larger than {_LIMIT_BYTES} bytes, which no config is.", "Look at the file.")
        with open(path, encoding="utf-8") as stream:
            value = json.load(stream)
    except (OSError, ValueError) as e:
        raise ModelopsError(f"{path} cannot be read as JSON: {e}.", "Download the snapshot again.") from e
    if not isinstance(value, dict):
        raise ModelopsError(f"{path} is not a JSON object.", "Download the snapshot again.")
    return value
