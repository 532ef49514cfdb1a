# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Which files of a commit make the snapshot: the listing, the user's patterns, and what the index names."""

from __future__ import annotations

import posixpath
import typing as t
from dataclasses import dataclass, field, replace

from .._errors import ModelopsError
from .._findings import Finding, error, info, warning
from .checks import RemoteFile
from .index import main_indices, weight_map
from .manifest import Selection
from .names import (
    gguf_model,
    gguf_parts,
    is_gguf,
    is_index,
    is_nested_index,
    is_pickle,
    is_pickle_index,
    is_weight,
    matches,
    pickle_model,
    unsafe_reason,
)

# What repositories publish a second time beside their safetensors in the root, for other programs.
# Seen in openai/gpt-oss-120b (original/, metal/), meta-llama (original/*.pth), mistralai (consolidated*),
# and in conversions for TensorFlow, Flax, ONNX, OpenVINO, Core ML and llama.cpp.
_DUPLICATES = (
    "original/",
    "metal/",
    "onnx/",
    "openvino/",
    "coreml/",
    "*.bin.index.json",
    "*.h5",
    "*.msgpack",
    "*.onnx",
    "*.gguf",
    "*.gguf.part*of*",
)

# Repositories for diffusers have an index for each of their few components; a listing with more is not read further.
_MAX_NESTED_INDICES = 32


@dataclass(frozen=True)
class Listing:
    """The files of one commit, the texts of its indices, and what there is to say about where this is from."""

    commit: str
    files: t.Mapping[str, RemoteFile]
    indices: t.Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Target:
    """What a destination must hold: the files, those of them that hold weights, and what there is to say."""

    commit: str
    files: t.Mapping[str, RemoteFile]
    shards: tuple[str, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def bytes_total(self) -> int:
        """Sum of the sizes of all files."""
        return sum(f.size for f in self.files.values())


def indices_among(names: t.Iterable[str]) -> list[str]:
    """The indices whose texts :func:`choose` needs: those of the root, and of components in folders.

    The index of a checkpoint of pickles is none where its folder holds safetensors, which it then repeats.
    """
    listed = sorted(n for n in names if not unsafe_reason(n))
    safe = {posixpath.dirname(n) for n in listed if n.endswith(".safetensors")}
    pickled = [n for n in listed if is_pickle_index(n) and posixpath.dirname(n) not in safe]
    root = [n for n in listed if is_index(n)] + [n for n in pickled if "/" not in n]
    nested = [n for n in listed if is_nested_index(n) and not matches(n, _DUPLICATES)]
    nested += [n for n in pickled if "/" in n]
    return root + nested[:_MAX_NESTED_INDICES]


def require_safe(repo: str, names: t.Collection[str]) -> None:
    """Refuse a listing with a name that must not, or cannot, be written; ModelopsError has the finding."""
    folders = {name[:i] for name in names for i, c in enumerate(name) if c == "/"}
    for name in names:
        reason = unsafe_reason(name) or ("a folder has the same name" if name in folders else "")
        if reason:
            message = f"{repo} lists the file {_shown(name)}, which is refused: {reason}."
            raise _refused("unsafe-name", message, "Use the Hub.")


def _shown(name: str) -> str:
    """A name for a message: quoted, without what a terminal could not show, and not longer than a line."""
    return ascii(name) if len(name) <= 100 else f"{name[:100]!a}..."


def choose(repo: str, listing: Listing, selection: Selection) -> Target:
    """The files of a snapshot.

    Without ``allow_patterns``: everything, except what repeats the safetensors of the root in another format.
    With them: what they match. Either way an index brings all of its shards, because a model without one of
    them is not the model. Raises ModelopsError with the finding in ``result`` where that cannot be done.
    """
    require_safe(repo, listing.files)
    # huggingface_hub keeps its own books there, and some publishers upload them.
    listing = replace(listing, files={n: f for n, f in listing.files.items() if not n.startswith(".cache/")})
    maps = {
        name: set(weight_map(text, name).values())
        for name, text in listing.indices.items()
        if selection.allow_pickle or not is_pickle_index(name)
    }
    _refuse_absent_shards(repo, listing, {n: maps[n] for n in main_indices(maps)})
    if selection.allow_patterns:
        chosen = {n for n in listing.files if matches(n, selection.allow_patterns)}
        left_out: set[str] = set()
    else:
        chosen = _default(repo, listing, maps, selection.allow_pickle)
        left_out = set(listing.files) - chosen
    chosen = {n for n in chosen if not matches(n, selection.ignore_patterns)}
    nested = {n: shards for n, shards in maps.items() if "/" in n}
    _refuse_absent_shards(repo, listing, {n: shards for n, shards in nested.items() if shards & chosen})
    if not chosen:
        raise _refused(
            "pattern-no-match",
            f"allow_patterns {list(selection.allow_patterns)} and ignore_patterns {list(selection.ignore_patterns)} "
            f"select none of the {len(listing.files)} files of {repo} at {listing.commit}.",
            "Patterns are matched against the whole path, as in *.safetensors or folder/*.",
        )
    findings = [*listing.findings, *_complete_sets(listing, maps, chosen), *_left_out(listing, left_out)]
    _refuse_absent_parts(repo, listing, chosen)
    pickles = sorted(n for n in chosen if is_pickle(n))
    if pickles and not selection.allow_pickle:
        raise _refused(
            "pickle-refused",
            f"{len(pickles)} selected files of {repo} are pickles, which run code when loaded: {pickles[0]}.",
            "Choose a repository with safetensors, leave them out with ignore_patterns, or set allow_pickle.",
        )
    shards = tuple(sorted(n for n in chosen if is_weight(n)))
    if not shards:
        findings.append(warning("no-weights", f"The selection of {repo} holds no weights.", "Widen allow_patterns."))
    files = {n: listing.files[n] for n in sorted(chosen)}
    return Target(listing.commit, files, shards, tuple(findings))


def _refused(id_: str, message: str, remedy: str) -> ModelopsError:
    return ModelopsError(message, remedy, findings=[error(id_, message, remedy).as_dict()])


def _refuse_absent_shards(repo: str, listing: Listing, maps: t.Mapping[str, set[str]]) -> None:
    """Refuse when one of these indices names files that the commit does not have."""
    for name in maps:
        absent = sorted(maps[name] - set(listing.files))
        if absent:
            raise _incomplete(repo, listing, f"{name} names {len(maps[name])} shards", len(maps[name]), absent)


def _refuse_absent_parts(repo: str, listing: Listing, chosen: set[str]) -> None:
    """Refuse a split GGUF file of which the commit does not have all parts."""
    for model, name in {gguf_model(n): n for n in sorted(chosen) if is_gguf(n)}.items():
        parts = gguf_parts(name)
        absent = [p for p in parts if p not in listing.files]
        if absent:
            raise _incomplete(repo, listing, f"{model} has {len(parts)} parts", len(parts), absent)


def _incomplete(repo: str, listing: Listing, what: str, expected: int, absent: list[str]) -> ModelopsError:
    failure = _refused(
        "upstream-inconsistent",
        f"{what}, and {len(absent)} of them are not in {repo} at {listing.commit}: "
        f"{', '.join(absent[:5])}{' ...' if len(absent) > 5 else ''}.",
        "No download can complete it: ask the publisher, or choose another revision.",
    )
    failure.result["shards"] = {"expected": expected, "present": 0, "missing": absent, "bad": []}
    return failure


def _default(repo: str, listing: Listing, maps: t.Mapping[str, set[str]], allow_pickle: bool) -> set[str]:
    names = set(listing.files)
    root = {n for n in names if n.endswith(".safetensors") and "/" not in n}
    if root or any(is_index(n) for n in maps):
        return names - _repeated(names, root, maps)
    models = {gguf_model(n) for n in names if is_gguf(n)}
    if len(models) > 1:
        raise _refused(
            "choice-needed",
            f"{repo} holds {len(models)} GGUF models: {', '.join(sorted(models)[:8])}.",
            "Choose one with allow_patterns.",
        )
    pickles = {n for n in names if is_pickle(n)}
    weights = {n for n in names if is_weight(n)}
    # A pickle among safe weights, training_args.bin for one, is left out; pickles alone are the user's choice.
    if allow_pickle or weights == pickles:
        return names
    return names - pickles - {n for n in names if is_pickle_index(n)}


def _repeated(names: set[str], root: set[str], maps: t.Mapping[str, set[str]]) -> set[str]:
    """The files that repeat the safetensors of the root."""
    main = main_indices(n for n in maps if is_index(n))
    wanted = set().union(*(maps[n] for n in main))
    if not main:
        plain = {n for n in root if not n.startswith("consolidated")}
        wanted = plain or root
    other_indices = {n for n in maps if is_index(n)} - set(main)
    return {n for n in names - wanted if n in root or n in other_indices or is_pickle(n) or matches(n, _DUPLICATES)}


def _complete_sets(listing: Listing, maps: t.Mapping[str, set[str]], chosen: set[str]) -> list[Finding]:
    """Add to ``chosen`` what completes a model of which it holds a part, and say so."""
    findings = []
    for name in [*main_indices(maps), *(n for n in maps if "/" in n)]:
        if not maps[name] & chosen:
            if name in chosen:
                findings.append(
                    warning(
                        "weights-left-out",
                        f"The patterns select {name} and none of its {len(maps[name])} shards.",
                        "Select the shards too, unless only the small files are wanted.",
                    )
                )
            continue
        added = (maps[name] | {name}) - chosen
        chosen |= added
        if added:
            findings.append(_added(added, f"{name} names them"))
    for model in sorted({_split_model(n) for n in chosen} - {""}):
        added = {n for n in listing.files if _split_model(n) == model} - chosen
        chosen |= added
        if added:
            findings.append(_added(added, f"they are parts of {model}"))
    return findings


def _split_model(name: str) -> str:
    """The model that this is a part of, by its name; empty for other files."""
    return gguf_model(name) if is_gguf(name) else pickle_model(name)


def _added(names: set[str], why: str) -> Finding:
    return info(
        "selection-completed",
        f"{len(names)} files that the patterns leave out belong to the model, {why}: {', '.join(sorted(names)[:5])}.",
        files=sorted(names),
    )


def _left_out(listing: Listing, names: set[str]) -> list[Finding]:
    """What a default selection leaves out, in all and by group."""
    if not names:
        return []
    groups: dict[str, int] = {}
    for name in sorted(names):
        groups[_group(name)] = groups.get(_group(name), 0) + listing.files[name].size
    size = sum(groups.values())
    shown = ", ".join(f"{group} ({n / 1e9:.2f} GB)" for group, n in groups.items())
    return [
        info(
            "left-out",
            f"{len(names)} files ({size / 1e9:.2f} GB) are left out, because they repeat the weights in another form "
            f"or are pickles: {shown}.",
            "Name them in allow_patterns to have them.",
            files=sorted(names),
            bytes=size,
            groups=groups,
        )
    ]


def _group(name: str) -> str:
    """What a file is left out with: its folder, or the other files of its format in the root."""
    folder, slash, _rest = name.partition("/")
    if slash:
        return folder + slash
    if name.startswith("consolidated"):
        return "consolidated*"
    return f"*{name[name.rindex('.') :]}" if "." in name else name
