# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from urllib.parse import unquote, urlsplit

from ansible.errors import AnsibleFilterError

try:
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.specifiers import SpecifierSet
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename
    from packaging.version import InvalidVersion, Version
except ImportError:  # ansible-core requires it, yet the import check of ansible-test goes without
    HAS_PACKAGING = False
else:
    HAS_PACKAGING = True

DOCUMENTATION = r"""
name: requirement_conflict
short_description: Why an installed version is not what a requirement of pip asks for
version_added: 1.1.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - Compares as pip does, with the specifiers of a requirement or with the version in the name of a wheel.
  - What names no version, such as the URL of a repository, is compared with the text that the version was installed
    from.
positional: _input, version
options:
  _input:
    description: What pip was, or would be, given to install.
    type: str
    required: true
  version:
    description: The installed version. An empty one is not known and conflicts with nothing.
    type: str
    required: true
  installed_from:
    description: What pip was given when it was installed. Empty when nobody wrote that down.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Say why this vLLM is not the one
  ansible.builtin.debug:
    msg: "{{ 'vllm~=0.33.0' | modelops.vllm.requirement_conflict('0.32.0+cu129') }}"
# "asks for ~=0.33.0"
"""

RETURN = r"""
_value:
  description: What the requirement asks for instead; empty when there is no conflict.
  type: str
"""


def requirement_conflict(requirement: str, version: str, installed_from: str = "") -> str:
    """What is asked for instead of ``version``; empty when nothing is. Raises AnsibleFilterError without packaging."""
    if not HAS_PACKAGING:
        raise AnsibleFilterError("The Python library packaging, which comes with ansible-core, is missing here.")
    text, source = requirement.strip(), installed_from.strip()
    if not version:
        return ""
    wanted = _specifiers(text)
    try:
        if wanted is not None:
            return "" if wanted.contains(Version(version), prereleases=True) else f"asks for {wanted}"
    except InvalidVersion:
        pass  # of a build that somebody has named: where it came from is all that is left
    if text == source:
        return ""
    return f"is not what it was installed from, {source or 'which nobody wrote down'}"


def _specifiers(text: str) -> SpecifierSet | None:
    """The versions that a requirement takes; None when it does not say so."""
    try:
        parsed = Requirement(text)
    except InvalidRequirement:
        place = text
    else:
        if not parsed.url:
            return parsed.specifier
        place = parsed.url
    name = unquote(urlsplit(place).path).rpartition("/")[2]
    try:
        return SpecifierSet(f"=={parse_wheel_filename(name)[1]}")
    except InvalidWheelFilename:
        return None


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., str]]:
        return {"requirement_conflict": requirement_conflict}
