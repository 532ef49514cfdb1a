# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job on a node leaves behind."""

from __future__ import annotations

import os
import time
from pathlib import Path

_SECONDS = 30.0


def leftovers(folder: Path) -> list[str]:
    """What is in the folder, once Ansible's own wrapper has had its time: it gives the result, and clears up then."""
    end = time.monotonic() + _SECONDS
    while (names := os.listdir(folder)) and time.monotonic() < end:
        time.sleep(0.1)
    return names
