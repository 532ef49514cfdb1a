#!/usr/bin/python
# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_info
short_description: NVIDIA GPUs of a node, their memory, links and driver
version_added: 1.0.0
author:
  - The modelops.vllm contributors (@modelops)
description:
  - Reads what nvidia-smi and the kernel say about the GPUs of a node. Nothing is changed.
  - A node without a driver, without GPUs or with a broken one is a result with a RV(status), not a failure of the
    module, and an error text is never taken for a GPU.
extends_documentation_fragment:
  - modelops.vllm._attributes
  - modelops.vllm._attributes.action_group
  - modelops.vllm._attributes.read_only
options:
  nvidia_smi:
    description: Name or path of nvidia-smi.
    type: str
    default: nvidia-smi
  timeout:
    description:
      - Seconds that all calls of nvidia-smi together may take. When it answers some of them in this time, the result
        has what it said, and a finding C(gpu-incomplete).
    type: int
    default: 60
  expected:
    description:
      - The GPUs that the node should have, with any of C(count), C(name), C(memory_mib), C(compute_cap) and C(link),
        as in a hardware profile. Differences are findings with severity V(error), that of C(link) with V(warning).
      - C(name) is the start of the device name.
    type: dict
seealso:
  - module: modelops.vllm.layout_info
"""

EXAMPLES = r"""
- name: Look at the GPUs
  modelops.vllm.gpu_info:
  register: gpus

- name: Stop on a node that is not what its profile says
  modelops.vllm.gpu_info:
    expected:
      count: 8
      name: NVIDIA RTX PRO 6000 Blackwell
      compute_cap: "12.0"
  register: gpus
  failed_when: gpus.findings | selectattr('severity', 'eq', 'error') | length > 0
"""

RETURN = r"""
status:
  description:
    - V(ok), or why there are no GPUs to use. V(gpu_lost) means that one of them does not answer.
    - One of V(ok), V(no_nvidia_smi), V(no_driver), V(no_devices), V(driver_mismatch), V(gpu_lost), V(timeout) and
      V(error).
  returned: success
  type: str
message:
  description: What nvidia-smi said, empty when RV(status) is V(ok).
  returned: success
  type: str
gpus:
  description: The GPUs in the order of nvidia-smi. A value that nvidia-smi does not give is null.
  returned: success
  type: list
  elements: dict
  contains:
    index:
      description: Number of the GPU.
      type: int
    name:
      description: Name of the device.
      type: str
    uuid:
      description: UUID of the device.
      type: str
    memory_mib:
      description: Total memory in MiB.
      type: int
    memory_used_mib:
      description: Used memory in MiB.
      type: int
    memory_free_mib:
      description: Free memory in MiB.
      type: int
    memory_source:
      description: Where the memory was read, V(nvidia-smi) or V(/proc/meminfo).
      type: str
    unified_memory:
      description: Whether the GPU uses the memory of the host.
      type: bool
    compute_cap:
      description: Compute capability.
      type: str
    bus_id:
      description: PCI bus id.
      type: str
    pcie_gen:
      description: PCIe generation now. An idle GPU may show a lower one.
      type: int
    pcie_gen_max:
      description: Highest PCIe generation.
      type: int
    pcie_width:
      description: PCIe lanes now.
      type: int
    pcie_width_max:
      description: Most PCIe lanes.
      type: int
    power_limit_w:
      description: Power limit in watts.
      type: float
    power_max_limit_w:
      description: Highest power limit in watts.
      type: float
    clock_max_mhz:
      description: Highest clock in MHz. Not queried by default.
      type: int
    mig:
      description: Whether MIG is on.
      type: bool
    virtual:
      description: Whether this is a vGPU or MIG profile.
      type: bool
    persistence:
      description: Whether persistence mode is on.
      type: bool
    ecc:
      description: Whether ECC is on.
      type: bool
    addressing_mode:
      description: Addressing mode of the driver, null also when it has none.
      type: str
    hmm:
      description: Whether the driver maps memory of the host by heterogeneous memory management.
      type: bool
      version_added: 1.1.0
    architecture:
      description: Architecture as nvidia-smi calls it.
      type: str
      version_added: 1.1.0
    bar1_mib:
      description: Size of BAR1 in MiB, the window through which other devices reach the memory.
      type: int
      version_added: 1.1.0
    pcie_gen_device_max:
      description: Highest PCIe generation of the GPU itself, whatever its slot offers.
      type: int
      version_added: 1.1.0
    virtualization:
      description: V(Pass-Through) or V(VGPU) in a virtual machine, null on bare metal.
      type: str
      version_added: 1.1.0
    mig_devices:
      description: Number of MIG devices.
      type: int
      version_added: 1.1.0
    fabric_state:
      description: State of the NVSwitch fabric, V(Completed) when it can be used, null where there is none.
      type: str
      version_added: 1.1.0
    fabric_status:
      description: How the registration with the fabric ended.
      type: str
      version_added: 1.1.0
    recovery_action:
      description: What the driver asks for after a fault, such as V(Reboot), null when nothing.
      type: str
      version_added: 1.1.0
    row_remapping_failed:
      description: Whether a faulty row of the memory could not be replaced.
      type: bool
      version_added: 1.1.0
    link:
      description: The same as RV(link).
      type: str
    numa_node:
      description: NUMA node of the GPU.
      type: int
    cpu_affinity:
      description: CPUs near the GPU.
      type: str
driver_version:
  description: Version of the driver.
  returned: success
  type: str
topology:
  description: What connects each GPU with each other device, as in C(nvidia-smi topo -m).
  returned: success
  type: dict
  sample: {GPU0: {GPU1: NODE}, GPU1: {GPU0: NODE}}
p2p:
  description: Peer access for C(read) and C(write), as in C(nvidia-smi topo -p2p). V(OK) does not prove that it works.
  returned: success
  type: dict
link:
  description: V(nvlink) when each GPU has one to each other, else V(pcie), null for a single GPU.
  returned: success
  type: str
iommu:
  description:
    - V(off), V(passthrough) or V(translated), or V(unknown) where the kernel does not show it.
    - In a virtual machine it is that of the guest.
  returned: success
  type: str
acs:
  description: Whether PCIe bridges above the GPUs send peer traffic up to the root complex.
  returned: success
  type: dict
  version_added: 1.1.0
  contains:
    mode:
      description:
        - V(redirect) when at least one does, V(direct) when none does, V(unknown) when that cannot be read, as without
          root and in a virtual machine.
      type: str
    bridges:
      description: The ACS control bits of the bridges that redirect, by address, in the words of lspci.
      type: dict
      sample: {"0000:40:01.1": SrcValid+ ReqRedir+ CmpltRedir+}
processes:
  description: Processes that hold GPU memory, once for each GPU.
  returned: success
  type: list
  elements: dict
  contains:
    pid:
      description: Process id.
      type: int
    gpu_uuid:
      description: UUID of the GPU.
      type: str
    used_memory_mib:
      description: Memory in MiB, null where the driver does not say.
      type: int
    gpu_index:
      description: Number of the GPU.
      type: int
      version_added: 1.1.0
    kind:
      description: V(C) for compute, V(G) for graphics, V(C+G) for both.
      type: str
      version_added: 1.1.0
    name:
      description: Name of the process.
      type: str
      version_added: 1.1.0
    owner:
      description: User of the process, null when it cannot be seen from here (another container).
      type: str
      version_added: 1.1.0
    unit:
      description: Its systemd service.
      type: str
      version_added: 1.1.0
findings:
  description: What is wrong or worth knowing, each with C(id), C(severity), C(message), C(numbers) and C(remedy).
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError, guarded
from ansible_collections.modelops.vllm.plugins.module_utils._gpu.collect import collect
from ansible_collections.modelops.vllm.plugins.module_utils._gpu.host import runner


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "nvidia_smi": {"type": "str", "default": "nvidia-smi"},
            "timeout": {"type": "int", "default": 60},
            "expected": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    with guarded(module):
        timeout = module.params["timeout"]
        if timeout < 1:
            raise ModelopsError(f"timeout is {timeout}.", "Give at least 1 second.")
        run = runner(module.params["nvidia_smi"], timeout)
        module.exit_json(changed=False, **collect(run, module.params["expected"]))


if __name__ == "__main__":
    main()
