# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The read side of a Xet content store, for the loopback Hub.

The store is a directory that the real hf_xet client (1.3 or newer) wrote with ``endpoint="local://DIR"``:
``.mdb`` shards say which chunks of which xorbs a file is made of, xorbs hold the chunks. Both formats are
parsed here as far as serving needs it (read from huggingface/xet-core, af1a3ff9).
"""

from __future__ import annotations

import re
import struct
import typing as t
from dataclasses import dataclass
from pathlib import Path

_XORB_FOOTER = b"XETBLOB"
_LAST_FILE = b"\xff" * 32
_FLAG_VERIFICATION = 1 << 31
_FLAG_METADATA = 1 << 30


class PastTheEndError(Exception):
    """The client asked for bytes behind the file's end: HTTP 416."""


@dataclass(frozen=True)
class Chunk:
    """A chunk inside a xorb; ``stored`` counts its 8-byte header, lengths and offsets are bytes."""

    offset: int
    stored: int
    unpacked: int


@dataclass(frozen=True)
class Term:
    """Chunks ``start`` to ``end`` (exclusive) of one xorb, ``unpacked`` bytes of the file."""

    xorb: str
    unpacked: int
    start: int
    end: int


def _hex(raw: bytes) -> str:
    """A hash as the API writes it: four little-endian u64 in hex."""
    return "".join(f"{x:016x}" for x in struct.unpack("<4Q", raw))


class XetStore:
    """The files and xorbs of one content store directory."""

    def __init__(self, directory: Path | str) -> None:
        base = Path(directory) / "xet" / "xorbs"
        self.files: dict[str, list[Term]] = {}
        self.xorbs: dict[str, tuple[Path, list[Chunk]]] = {}
        for shard in (base / "shards").glob("*.mdb"):
            self._read_shard(shard.read_bytes())
        for xorb in (base / "xorbs").glob("default.*"):
            if re.fullmatch(r"default\.[0-9a-f]{64}", xorb.name):
                self.xorbs[xorb.name.split(".")[1]] = (xorb, _read_chunks(xorb))

    def _read_shard(self, data: bytes) -> None:
        at = 48  # header: 32 bytes of tag, u64 version, u64 length of the footer
        while True:
            raw = data[at : at + 32]
            flags, count = struct.unpack_from("<II", data, at + 32)
            at += 48
            if raw == _LAST_FILE:
                return
            terms = []
            for i in range(count):
                entry = at + 48 * i
                _flags, unpacked, start, end = struct.unpack_from("<IIII", data, entry + 32)
                terms.append(Term(_hex(data[entry : entry + 32]), unpacked, start, end))
            at += 48 * count * (2 if flags & _FLAG_VERIFICATION else 1) + (48 if flags & _FLAG_METADATA else 0)
            self.files[_hex(raw)] = terms

    def reconstruction(self, file_hash: str, wanted: tuple[int, int | None] | None, base: str) -> dict[str, t.Any]:
        """The v1 answer for a byte range (inclusive; an open end is None) of a file.

        Raises KeyError for an unknown file and :class:`PastTheEndError` for a range behind its end.
        """
        terms = self.files[file_hash]
        last = sum(term.unpacked for term in terms) - 1
        first_byte, end = wanted or (0, None)
        last_byte = last if end is None else min(end, last)
        if first_byte > last:
            raise PastTheEndError
        out: list[dict[str, t.Any]] = []
        fetch: dict[str, list[dict[str, t.Any]]] = {}
        position, skip = 0, None
        for term in terms:
            chunks = self.xorbs[term.xorb][1]
            hit: list[int] = []
            for i in range(term.start, term.end):
                if position + chunks[i].unpacked > first_byte and position <= last_byte:
                    if skip is None:
                        skip = first_byte - position
                    hit.append(i)
                position += chunks[i].unpacked
            if not hit:
                continue
            span = {"start": hit[0], "end": hit[-1] + 1}
            out.append({"hash": term.xorb, "unpacked_length": sum(chunks[i].unpacked for i in hit), "range": span})
            stop = chunks[hit[-1]].offset + chunks[hit[-1]].stored - 1
            fetch.setdefault(term.xorb, []).append(
                {
                    "range": span,
                    "url": f"{base}/cas/xorb/{term.xorb}",
                    "url_range": {"start": chunks[hit[0]].offset, "end": stop},
                }
            )
        return {"offset_into_first_range": max(skip or 0, 0), "terms": out, "fetch_info": fetch}


def _read_chunks(xorb: Path) -> list[Chunk]:
    """The chunks of a xorb; a chunk's header is u8 version, u24 stored, u8 scheme, u24 unpacked."""
    chunks: list[Chunk] = []
    offset, size = 0, xorb.stat().st_size
    with xorb.open("rb") as f:
        while offset + 8 <= size:
            f.seek(offset)
            head = f.read(8)
            if head[:7] == _XORB_FOOTER or head[0] != 0 or head[4] > 2:
                break
            stored = int.from_bytes(head[1:4], "little")
            chunks.append(Chunk(offset, 8 + stored, int.from_bytes(head[5:8], "little")))
            offset += 8 + stored
    return chunks
