# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Which flags an installed vLLM knows, read from its own ``vllm serve --help=all``, and the gate made of them."""

from __future__ import annotations

import difflib
import re
import typing as t
from dataclasses import dataclass

from .._errors import ModelopsError
from .._findings import Finding, error
from .args import Flags, Value

# An option's line starts after exactly two blanks; its help is indented deeper.
_OPTION_LINE = re.compile(r"^  (-\S.*)$")
_CHOICES = re.compile(r"\{([^{}]*)\}( or name registered in (--[a-z0-9-]+))?")
_BRACKETS = re.compile(r"\{[^{}]*\}|\[[^\[\]]*\]")
_LONG = re.compile(r"--[a-z0-9][a-z0-9-]*")
_SHORT = re.compile(r"-[a-zA-Z][a-zA-Z0-9]*")
_WORDS: t.Final[t.Mapping[str, bool]] = {
    "true": True,
    "yes": True,
    "on": True,
    "false": False,
    "no": False,
    "off": False,
}
# Fewer than this is no vLLM: version 0.10.0 has about 190 flags.
_FEWEST = 20


@dataclass(frozen=True)
class Flag:
    """One option: its long names, its short ones, the values it takes."""

    names: tuple[str, ...]
    short: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    plugin: str = ""
    """The flag that may register further choices; empty when the list is closed."""

    @property
    def negation(self) -> str:
        """``no-x`` when the flag has this form, else an empty string."""
        return next((n for n in self.names if n.startswith("no-") and n[3:] in self.names), "")

    def as_dict(self) -> dict[str, t.Any]:
        return {"names": self.names, "short": self.short, "choices": self.choices, "plugin": self.plugin}


def parse_help(text: str) -> list[Flag]:
    """The options of ``vllm serve --help=all``. Raises ModelopsError when the text is not such a help page."""
    flags = [flag for line in text.splitlines() if (m := _OPTION_LINE.match(line)) and (flag := _parse_option(m[1]))]
    if len(flags) < _FEWEST or not any("tensor-parallel-size" in f.names for f in flags):
        raise ModelopsError(
            f"The output of 'vllm serve --help=all' shows {len(flags)} flags and is no help page of vLLM: "
            f"{text.strip()[-200:]!r}.",
            "Check serve_vllm_bin by running that command on the node.",
        )
    return flags


def _parse_option(line: str) -> Flag | None:
    choices: tuple[str, ...] = ()
    plugin = ""
    invocation = line.split("  ", maxsplit=1)[0]
    found = _CHOICES.search(invocation)
    if found is not None:
        choices = tuple(found[1].split(","))
        plugin = (found[3] or "").lstrip("-")
        invocation = invocation[: found.start()] + "X" + invocation[found.end() :]
    words = [part.split()[0] for part in _BRACKETS.sub("", invocation).split(",") if part.split()]
    names = tuple(w[2:] for w in words if _LONG.fullmatch(w))
    if not names:
        return None
    return Flag(names, tuple(w[1:] for w in words if _SHORT.fullmatch(w)), choices, plugin)


def gate(flags: Flags, known: t.Sequence[Flag], version: str) -> list[Finding]:
    """Every flag must be known by its full long name, and a value must be among the choices that vLLM lists."""
    by_name = {name: flag for flag in known for name in flag.names}
    by_short = {short: flag for flag in known for short in flag.short}
    findings = []
    for name, value in flags.items():
        flag = by_name.get(name)
        if flag is None:
            findings.append(_unknown(name, by_name, by_short, version))
        elif flag.choices and isinstance(value, str) and value not in flag.choices and flag.plugin not in flags:
            findings.append(
                error(
                    "flag-choice",
                    f"{name} is {value!r}, which vLLM {version} does not know.",
                    f"It knows {', '.join(flag.choices)}.",
                    flag=name,
                )
            )
    return findings


def _unknown(name: str, by_name: t.Mapping[str, Flag], by_short: t.Mapping[str, Flag], version: str) -> Finding:
    if name in by_short:
        remedy = f"Write the long name {by_short[name].names[0]}: a config file takes no short ones."
    else:
        near = difflib.get_close_matches(name, by_name, n=1, cutoff=0.75)
        hint = f"Did you mean {near[0]}? " if near else ""
        remedy = f"{hint}Take it out, or use a vLLM that has it; vllm serve --help=all lists what there is."
    return error("flag-unknown", f"{name} is not a flag of the installed vLLM {version}.", remedy, flag=name)


def for_config_file(flags: Flags, known: t.Sequence[Flag]) -> Flags:
    """``flags`` as ``--config`` must hold them.

    vLLM drops ``x: false`` of a config file without a word: it looks for ``--no-x`` in the parser of the bare
    ``vllm`` command, which has none (vLLM 0.32.0, FlexibleArgumentParser.load_config_file). So false is written
    as ``no-x: true``; a flag without that form is false when it is absent.
    """
    by_name = {name: flag for flag in known for name in flag.names}
    result: dict[str, Value] = {}
    for name, given in flags.items():
        # AWX surveys have no booleans: where the flag is one, the words mean one.
        switch = name in by_name and bool(by_name[name].negation)
        value = _WORDS.get(given.lower(), given) if switch and isinstance(given, str) else given
        if value is not False:
            result[name] = value
        elif name in by_name and by_name[name].negation:
            result[by_name[name].negation] = True
        elif not known:
            # Without the installed vLLM at hand: the form that its boolean flags have.
            result[f"no-{name}"] = True
    return result
