# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._serve import quadlet, render

DOCUMENTATION = r"""
name: container_file
short_description: Text of a Quadlet file from the sections of a systemd service
version_added: 1.1.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - Renders the same sections as P(modelops.vllm.unit_file#filter) for podman, so that the unit has the same name, the
    same restarts and the same time to stop, and vLLM's process the same limits, user and environment.
  - Each value reaches the process unchanged through Quadlet and systemd, whatever quotes, backslashes, C(%) or C($) it
    holds.
  - An override that would start something else than what was checked is refused, by a key or by a flag in
    C(PodmanArgs). So is one that gets in the way of the stop, such as C(StopTimeout).
positional: _input
options:
  _input:
    description:
      - Sections, each a mapping of directives. A list gives a directive several times, V(null) leaves it out.
      - C([Install]) is left out. C(systemctl) cannot enable a unit that a generator has made;
        M(modelops.vllm.vllm_switch) makes the link that this takes.
      - Sandboxing of C([Service]) is left out, since it would act on podman. The container has its own.
    type: dict
    required: true
  container:
    description: What runs in the container, and what it gets of the node.
    type: dict
    required: true
    suboptions:
      name:
        description: Name of the container.
        type: str
        required: true
      image:
        description: The image by its digest, C(registry/name@sha256:...).
        type: str
        required: true
      argv:
        description: The command, word by word. Its first word replaces the entry point of the image.
        type: list
        elements: str
        required: true
      user:
        description: The numbers of user and group, C(uid:gid).
        type: str
        required: true
      environment:
        description: Variables for the process. Never a secret, since everyone can read the file.
        type: dict
        default: {}
      secrets:
        description: Names of the variables that C(EnvironmentFile=) of the service gives; only they stand in the file.
        type: list
        elements: str
        default: []
      volumes:
        description: Paths of the node that the container gets, C(/on/the/node:/in/the/container) and perhaps C(:ro).
        type: list
        elements: str
        default: []
      devices:
        description: Devices that the container gets, such as C(nvidia.com/gpu=0).
        type: list
        elements: str
        default: []
      shm_size:
        description: Size of an own C(/dev/shm), such as V(16g). Empty for the one of the node.
        type: str
        default: ""
      local_image:
        description: Whether C(image) may be the id of an image that is on the node.
        type: bool
        default: false
  mounts:
    description: Paths whose file systems must be mounted before the start.
    type: list
    elements: str
    default: []
  overrides:
    description:
      - Sections that win over the input, directive by directive.
      - Lists of C([Container]), such as C(AddDevice) and C(PodmanArgs), get longer instead.
    type: dict
    default: {}
seealso:
  - plugin: modelops.vllm.unit_file
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Install a container as a service
  ansible.builtin.copy:
    content: "{{ sections | modelops.vllm.container_file(container) }}"
    dest: /etc/containers/systemd/vllm-main.container
    mode: "0644"
  vars:
    container:
      name: vllm-main
      image: docker.io/vllm/vllm-openai@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
      argv: [vllm, serve, --config, /etc/vllm/main.yaml]
      user: "990:990"
      devices: [nvidia.com/gpu=0, nvidia.com/gpu=1]
      volumes: ["/etc/vllm/main.yaml:/etc/vllm/main.yaml:ro", "/srv/models:/srv/models:ro"]
"""

RETURN = r"""
_value:
  description: The text of the file.
  type: str
"""


def container_file(
    sections: quadlet.Sections,
    container: t.Mapping[str, t.Any],
    mounts: t.Sequence[str] = (),
    overrides: quadlet.Sections | None = None,
) -> str:
    """The text of the file; raises AnsibleFilterError for values that Quadlet or systemd would read differently."""
    try:
        said = dict(container)
        said["image"] = quadlet.image_reference(str(said["image"]), allow_local=said.pop("local_image", False))
        merged = {section: dict(keys) for section, keys in sections.items()}
        if mounts:
            merged["Unit"]["RequiresMountsFor"] = " ".join(render.quote(path) for path in mounts)
        return quadlet.container_file(merged, quadlet.Container(**said), overrides)
    except ModelopsError as e:
        raise AnsibleFilterError(str(e)) from e


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., str]]:
        return {"container_file": container_file}
