#!/usr/bin/python
# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_image
short_description: Have the image of a vLLM instance on the node, and prove that podman can run it as a service
version_added: 1.1.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - Pulls an image by its digest when it is not there yet.
  - Before that it looks whether this podman has Quadlet, whether the devices are in a CDI specification, whether the
    volumes are there, and whether the name of the container is free.
  - All findings are returned at once. The module does not fail because of them, look at RV(valid). It fails when the
    image is named by a tag alone, and when it cannot be pulled.
extends_documentation_fragment:
  - modelops.vllm._attributes
  - modelops.vllm._attributes.action_group
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  image:
    description:
      - The image with its registry and its digest, C(registry/name@sha256:...). A tag in between is ignored.
    type: str
    required: true
  allow_local:
    description:
      - Whether O(image) may be the id of an image that is on the node and can be pulled from nowhere.
    type: bool
    default: false
  auth_file:
    description:
      - File with the credentials for the registry, as C(podman login --authfile) writes it. There is no other way to
        give them.
    type: path
  devices:
    description:
      - Devices that the instance gets, such as V(nvidia.com/gpu=0).
    type: list
    elements: str
    default: []
  volumes:
    description:
      - Volumes whose source is on the node already, as C(/on/the/node:/in/the/container[:options]).
    type: list
    elements: str
    default: []
  instance:
    description:
      - Name of the instance that it is for. A container with the name of the instance or of one of its replicas, such
        as C(vllm-main) and C(vllm-main-r0), must be that of its own unit, since the unit removes what it finds there.
    type: str
seealso:
  - module: modelops.vllm.vllm_args_info
  - module: modelops.vllm.vllm_release
"""

EXAMPLES = r"""
- name: Have vLLM's image
  modelops.vllm.vllm_image:
    image: docker.io/vllm/vllm-openai@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
    auth_file: /etc/containers/auth.json
    devices: [nvidia.com/gpu=all]
    volumes: ["/srv/models/MiniMaxAI/MiniMax-M2.5:/srv/models/MiniMaxAI/MiniMax-M2.5:ro"]
    instance: main
  register: image
  failed_when: image is failed or not image.valid
"""

RETURN = r"""
reference:
  description: O(image) as podman takes it.
  returned: success
  type: str
present:
  description: Whether the image is on the node now.
  returned: success
  type: bool
image:
  description: The image, V(null) when it is not on the node.
  returned: success
  type: dict
  contains:
    id:
      description: Its id, the digest of its configuration.
      type: str
    digest:
      description: The digest of its manifest.
      type: str
    architecture:
      description: Its architecture, such as V(amd64).
      type: str
    size:
      description: Its size in bytes.
      type: int
podman:
  description: The version of podman, empty where there is none.
  returned: success
  type: str
  sample: 5.4.2
valid:
  description: Whether no finding is an error.
  returned: success
  type: bool
findings:
  description: What was found, errors, warnings and remarks.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: Stable name of the rule, such as V(podman-too-old), V(device-unknown) or V(container-foreign).
      type: str
    severity:
      description: One of V(error), V(warning) and V(info).
      type: str
    message:
      description: What was found.
      type: str
    numbers:
      description: The values of the message for machines.
      type: dict
    remedy:
      description: What to do about it.
      type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modelops.vllm.plugins.module_utils._errors import guarded
from ansible_collections.modelops.vllm.plugins.module_utils._serve.container_shell import have_image
from ansible_collections.modelops.vllm.plugins.module_utils._serve.shells import run_command


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "image": {"type": "str", "required": True},
            "allow_local": {"type": "bool", "default": False},
            "auth_file": {"type": "path"},
            "devices": {"type": "list", "elements": "str", "default": []},
            "volumes": {"type": "list", "elements": "str", "default": []},
            "instance": {"type": "str"},
        },
        supports_check_mode=True,
    )
    with guarded(module):
        module.exit_json(**have_image(module, lambda argv: run_command(module, argv)))


if __name__ == "__main__":
    main()
