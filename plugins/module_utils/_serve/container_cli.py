# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Asks the vLLM of an image what :mod:`vllm_cli` asks that of a virtual environment.

Each question is a container of its own, without a network and without capabilities, but with the devices and the
volumes of the instance: a build for CUDA needs the driver to be imported, and a question that podman cannot even start
is one that the instance would fail with after the running one was stopped.
"""

from __future__ import annotations

import dataclasses
import json
import typing as t

from .._errors import ModelopsError
from . import podman
from .vllm_cli import Cli

_SECONDS: t.Final = 600
_MARK: t.Final = "MODELOPS_IMAGE "
# The Python behind the console script, for which the image need not say where it is.
_LOOK: t.Final = """
script=$(command -v "$1") || { echo "there is no $1 in the image" >&2; exit 127; }
read -r first < "$script"
case $first in "#!"*python*) ;; *) echo "$script is no Python script" >&2; exit 126 ;; esac
printf '%s\\n' "$script"
exec ${first#??} -I -c "$2"
"""
_FACTS: t.Final = f"""
import importlib.metadata, importlib.util, json, os, sys
spec = importlib.util.find_spec("transformers")
folder = os.path.join(spec.submodule_search_locations[0], "models") if spec else ""
names = os.listdir(folder) if os.path.isdir(folder) else []
types = [n for n in names if os.path.exists(os.path.join(folder, n, "__init__.py"))]
print({_MARK!r} + json.dumps([sys.executable, importlib.metadata.version("vllm"), types]))
"""
_REMEDY: t.Final = (
    "Where a device could not be given to it, write its CDI specification anew: nvidia-ctk cdi generate"
    " --output=/etc/cdi/nvidia.yaml. Else choose another image, or set serve_vllm_bin to the vllm inside it."
)


class ContainerCli(Cli):
    """One ``vllm`` of an image: ``binary`` is its path there, or its name."""

    def __init__(self, sandbox: podman.Sandbox, binary: str, run: podman.Run, tmpdir: str) -> None:
        """``tmpdir`` holds the files of questions. Raises ModelopsError when the image has no vLLM or does not run."""
        # The name stands in messages, and with the digest in it for the identity of what was asked.
        super().__init__(f"{binary} of {sandbox.image}", self._inside, "/tmp")
        self._env.pop("PATH")
        self._podman = run
        self._sandbox = dataclasses.replace(sandbox, volumes=[*sandbox.volumes, f"{tmpdir}:{tmpdir}:ro"])
        self._script = binary
        self._script, self.python, self._version, self._types = self._look()

    def _look(self) -> tuple[str, str, str, frozenset[str]]:
        rc, out, err = self._inside(["/bin/sh", "-c", _LOOK, "sh", self._script, _FACTS], self._env)
        lines = out.splitlines()
        facts = next((line[len(_MARK) :] for line in lines if line.startswith(_MARK)), None)
        if rc != 0 or facts is None:
            reason = (err or out).strip()[-700:] or "no message"
            raise ModelopsError(
                f"The vLLM of the image {self._sandbox.image} does not run here, status {rc}: {reason}", _REMEDY
            )
        python, version, types = json.loads(facts)
        return lines[0], python, version, frozenset(types)

    def _inside(self, argv: t.Sequence[str], env: t.Mapping[str, str]) -> tuple[int, str, str]:
        inside = [self._script if argv[0] == self.binary else argv[0], *argv[1:]]
        return self._podman(self._sandbox.command(inside, env, _SECONDS))

    def version(self) -> str:
        """The version of the distribution vllm in the image."""
        return self._version

    def model_types(self) -> frozenset[str]:
        """The values of model_type for which the transformers of the image has classes of its own."""
        return self._types

    def help_text(self) -> str:
        """``vllm serve --help=all``"""
        try:
            return super().help_text()
        except ModelopsError as e:
            raise ModelopsError(e.message, _REMEDY) from e
