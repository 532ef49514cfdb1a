# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""IP addresses in one form, so that two spellings of one are the same."""

from __future__ import annotations

import ipaddress
import typing as t

Address: t.TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"


def plain(address: Address) -> Address:
    """The address of IPv4 that is meant by ::ffff:192.0.2.1; others as they are."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped


def parse(text: str) -> Address | None:
    """The address in its plain form; None for a name."""
    try:
        return plain(ipaddress.ip_address(text))
    except ValueError:
        return None
