# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Error lines that the network, the GPUs, the node, its service manager and the container engine cause.

Sources: the code of vLLM 0.32.0; torch 2.11, podman and the kernel of Debian 12 made to fail in the same ways; lines of
NCCL, CUDA and systemd from their sources.
"""

from __future__ import annotations

import typing as t

from .rules import Rule, rule

NETWORK_RULES: t.Final[tuple[Rule, ...]] = (
    rule(
        "rendezvous-port-in-use",
        r"server socket has failed to (listen|bind)",
        "The port where the ranks meet (master-port, data-parallel-rpc-port) is taken on the first node: ss -ltnp names"
        " the owner.",
    ),
    rule(
        "network-interface",
        r"Unable to find address for|[Uu]nable to find interface|no socket interface found",
        "GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME in serve_env names an interface that this node does not have.",
    ),
    rule(
        "rendezvous-timeout",
        r"waiting for clients\. \d+/\d+ clients joined|client socket has (timed out|failed)"
        r"|DistStoreError: wait timeout|ncclUniqueId from|Gloo connectFullMesh failed|RendezvousConnectionError",
        "The ranks of several nodes did not find each other: start all nodes together, and check that the address and"
        " the ports of the first node are reachable from the others (hosts file, firewall, VLLM_HOST_IP).",
    ),
    rule(
        "front-end-unreachable",
        r"Did not receive response from front-end process",
        "This node does not reach the one with the API server: check data-parallel-address and data-parallel-rpc-port.",
    ),
    rule(
        "engine-args-differ",
        r"Configuration mismatch detected for engine|Remote engine \S+ must (not )?use --headless",
        "All ranks must run with the same args and the same vLLM.",
    ),
    rule(
        "engine-start-timeout",
        r"Timed out waiting for engine core",
        "Leave VLLM_ENGINE_READY_TIMEOUT_S out of serve_env: the role sets a day, as API servers count the load too.",
    ),
    rule(
        "collective-timeout",
        r"Watchdog caught collective operation timeout|collective operation timeout: WorkNCCL",
        "A rank did not take part in a collective operation: it hangs or is gone. Look at the other ranks and nodes"
        " first. On PCIe nodes check IOMMU and ACS, or set NCCL_P2P_DISABLE=1 together with disable-custom-all-reduce.",
    ),
    rule(
        "worker-hangs",
        r"RPC call to \w+ timed out",
        "A worker did not answer: look at nvidia-smi and at the log lines of the other ranks.",
    ),
    rule(
        "nccl",
        r"NCCL error|ncclUnhandledCudaError|ncclSystemError|ncclInternalError|ncclRemoteError|ncclInvalidUsage",
        "Set NCCL_DEBUG=INFO in serve_env. On PCIe nodes check IOMMU and ACS, or set NCCL_P2P_DISABLE=1 together with"
        " disable-custom-all-reduce.",
    ),
    rule(
        "peer-lost",
        r"gloo/transport/\S+ (Connection closed|Connection reset|Timed out|Read error|Write error)|recvValue\w* failed"
        r"|Connection (closed|reset) by peer \[",
        "Another rank has ended: the journal of its node says why.",
    ),
    rule(
        "address-not-local",
        r"\[Errno 99\]|Cannot assign requested address",
        "serve_host, VLLM_HOST_IP or data-parallel-address is no address of this node.",
    ),
    rule(
        "host-name-unknown",
        r"socket\.gaierror|Name or service not known|Temporary failure in name resolution",
        "The node cannot resolve the name in its args: use addresses, or complete its hosts file.",
    ),
    rule(
        "port-in-use",
        r"\[Errno 98\]|[Aa]ddress already in use",
        "Another process listens on the port: ss -ltnp names it. Stop it or set serve_port.",
    ),
)

GPU_RULES: t.Final[tuple[Rule, ...]] = (
    rule(
        "no-kernel-for-gpu",
        r"no kernel image is available|provided PTX was compiled with an unsupported toolchain",
        "The installed build has no code for this GPU or driver: install a vLLM and torch built for its compute"
        " capability, or a newer driver.",
    ),
    rule(
        "fabric-manager",
        r"system not yet initialized|cudaErrorSystemNotReady|Error 802",
        "The NVSwitches are not ready: start nvidia-fabricmanager, in the version of the driver, before the instance.",
    ),
    rule(
        "gpu-hardware",
        r"uncorrectable (ECC|NVLink) error|GPU is lost|fallen off the bus|[Hh]ardware stack error",
        "A GPU is broken or gone: look for Xid lines in journalctl -k, then reset or replace it.",
    ),
    rule(
        "gpu-driver",
        r"No CUDA GPUs are available|Failed to infer device type|CUDA driver version is insufficient|CUDA unknown error"
        r"|driver on your system is too old|no CUDA-capable device|driver initialization failed"
        r"|unsupported display driver|forward compatibility was attempted|[Dd]river/library version mismatch",
        "vLLM sees no GPU: check nvidia-smi, the driver version and CUDA_VISIBLE_DEVICES.",
    ),
    rule(
        "illegal-memory-access",
        r"illegal (memory access|instruction was encountered)|device-side assert triggered|unspecified launch failure"
        r"|misaligned address",
        "Set compilation-config to {cudagraph_mode: PIECEWISE} in serve_args and report it to vLLM.",
    ),
    rule(
        "cuda-error",
        r"CUDA (driver )?error: |CUBLAS_STATUS_|CUDNN_STATUS_",
        "A GPU operation failed: look for Xid lines in journalctl -k, and start once with CUDA_LAUNCH_BLOCKING=1 in"
        " serve_env to see which.",
    ),
)

CONTAINER_RULES: t.Final[tuple[Rule, ...]] = (
    rule(
        "container-gpu-missing",
        r"unresolvable CDI devices|setting up CDI devices",
        "The container engine does not know the GPUs: write /etc/cdi/nvidia.yaml again with nvidia-ctk cdi generate.",
    ),
    rule(
        "container-image-missing",
        r"image not known|no such image|manifest unknown|initializing source docker|pinging container registry"
        r"|did not resolve to an alias|unable to copy from source",
        "The image is not on the node and cannot be fetched: pull it before the switch, by its digest.",
    ),
    rule(
        "container-mount-missing",
        r"^Error: statfs \S+ no such file or directory|no such volume",
        "A path that is mounted into the container does not exist on the node.",
    ),
    rule(
        "container-not-started",
        r"^Error: (\S+: )?(crun|runc|OCI runtime|creating container|container_linux|the container name)"
        r"|OCI (permission denied|runtime)",
        "The container engine cannot start the container: podman logs and journalctl of the unit say more.",
    ),
)

HOST_RULES: t.Final[tuple[Rule, ...]] = (
    rule(
        "unit-not-started",
        r"\.service: (Failed at step|Failed to locate executable|Failed to load environment files"
        r"|Failed to determine (user|group) credentials|Failed to set up)",
        "systemd cannot start the program: check the path, the user and the files that the line names.",
    ),
    rule(
        "service-user-missing",
        r"getpwuid\(\): uid not found",
        "The service user has no entry in the user database: set serve_user to a name.",
    ),
    rule(
        "host-out-of-memory",
        r"killed by the OOM killer|result 'oom-kill'|DefaultCPUAllocator: (can't allocate|not enough) memory"
        r"|unable to mmap .*Cannot allocate memory|\[Errno 12\]",
        "The node ran out of memory: free some, or lower what the host caches (cpu-offload-gb, swap, KV offload).",
    ),
    rule(
        "illegal-instruction",
        r"[Ii]llegal instruction|status=4/ILL|exit code: -4\)",
        "The build uses instructions that this CPU does not have (the CPU build of vLLM needs AVX-512 or AMX, by its"
        " version): install the build for this CPU.",
    ),
    rule(
        "shared-memory-too-small",
        r"/dev/shm|[Ss]hared memory .*(required|insufficient|free)",
        "/dev/shm is too small or full: df /dev/shm; remove stale nccl-* files while nothing runs, in containers raise"
        " the shm size.",
        "hint",
    ),
    rule(
        "disk-full",
        r"No space left on device|Disk quota exceeded",
        "A file system is full: df shows which; the caches are below serve_state_dir.",
        "hint",
    ),
    rule(
        "too-many-open-files",
        r"\[Errno 24\]|Too many open files",
        "Raise LimitNOFILE of the unit (serve_unit_overrides) to 1048576.",
        "hint",
    ),
    rule(
        "too-many-processes",
        r"can't start new thread|\[Errno 11\]|pthread_create failed",
        "The unit reached its limit of threads: raise TasksMax and LimitNPROC of the unit (serve_unit_overrides).",
        "hint",
    ),
    rule(
        "build-tools-missing",
        r"[Cc]ould not find nvcc|nvcc\S* not found|CUDA_HOME|Failed to find C compiler|[Nn]inja is required"
        r"|ninja: build stopped|No such file or directory: '\S*(ninja|nvcc|gcc|cc|g\+\+|c\+\+)'|Python\.h",
        "A kernel is compiled at the first start, and a tool for it is missing: ninja and nvcc must be in PATH of the"
        " unit, with a C compiler and the headers of Python.",
        "hint",
    ),
    rule(
        "compilation-failed",
        r"InductorError|BackendCompilerFailed|torch\._dynamo\.exc|CompilationError|PassManager::run failed|ptxas",
        "torch.compile or Triton failed: start once with enforce-eager in serve_args, and remove the compile cache"
        " below serve_state_dir.",
        "hint",
    ),
    rule(
        "permission-denied",
        r"PermissionError: \[Errno (1|13)\]",
        "Make the path in the line readable (caches: writable) for serve_user.",
        "hint",
    ),
    rule(
        "python-package-broken",
        r"^(ModuleNotFoundError|ImportError): |undefined symbol|cannot open shared object file",
        "The vLLM installation is incomplete: install it anew into an empty venv.",
        "hint",
    ),
    rule(
        "start-limit",
        r"Start request repeated too quickly",
        "It failed several times in a row: the journal of the starts before says why. systemctl reset-failed allows the"
        " next start.",
        "hint",
    ),
    rule(
        "stopped",
        r"^KeyboardInterrupt|^SystemExit",
        "The unit was stopped while it started: by another deployment, by systemctl, or because the node went down.",
        "hint",
    ),
)

# The first two say how a process ended; an error that it printed before says more.
WRAPPER_RULES: t.Final[tuple[Rule, ...]] = (
    rule(
        "process-killed",
        r"exit code: -9\)|status=9/KILL",
        "A process was killed by SIGKILL, most often for want of memory: journalctl -k names what the OOM killer took.",
        "wrapper",
    ),
    rule(
        "native-crash",
        r"Fatal Python error: (Segmentation fault|Aborted|Bus error)|^Segmentation fault|Segfault encountered"
        r"|status=(6/ABRT|7/BUS|11/SEGV)|died unexpectedly \(exit code: -?[1-9]",
        "A kernel crashed: the lines before it say where; try enforce-eager and another attention-backend.",
        "wrapper",
    ),
    rule(
        "engine-core-failed",
        r"(Engine core|WorkerProc) initialization failed|(EngineCore|WorkerProc) failed to start"
        r"|Frontend process failed during engine core|died unexpectedly \(exit code: None\)|Executor failed\."
        r"|failed to be inspected|Error in (inspecting|loading) model architecture|Application startup failed"
        r"|taking the entire process down|terminating the process after attempting to dump|Worker failed with error",
        "The cause stands earlier in the journal of the unit.",
        "wrapper",
    ),
    rule(
        "engine-dead",
        r"EngineDeadError|EngineCore encountered (an issue|a fatal error)|WorkerProc (hit an exception|failed\.)"
        r"|output_handler failed|Exception occurred while running API servers|^RuntimeError: cancelled$",
        "The engine died while serving: the lines before it say why.",
        "wrapper",
    ),
)
