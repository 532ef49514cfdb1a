#!/usr/bin/python
# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hf_snapshot
version_added: 1.0.0
short_description: Make a verified snapshot of a Hugging Face model be present
description:
  - Downloads the files of one commit of a model repository and proves each of them, by size, safetensors header and
    SHA-256. Only then the files are put in their places and recorded in a manifest, C(.modelops/manifest.json) below
    O(dest).
  - What huggingface_hub returns is never taken for a proof. It reports success on incomplete folders in many cases.
  - A second run compares the files with the manifest by C(stat) only. It hashes nothing, and sends no request when
    O(revision) is a commit.
  - A file that was damaged or removed is fetched again, and nothing else.
author:
  - The modelops.vllm contributors (@modelops)
extends_documentation_fragment:
  - modelops.vllm._attributes
  - modelops.vllm._attributes.action_group
attributes:
  check_mode:
    support: full
    details:
      - Writes nothing. Lists the commit, verifies what is there, and returns exactly what would be fetched.
      - The plan needs no huggingface_hub. Where it is not installed yet, the finding V(no-hub-client) says so.
  diff_mode:
    support: full
    details:
      - Shows the verdicts on the files that change.
  idempotent:
    support: full
requirements:
  - huggingface_hub >= 0.36 for the interpreter O(python); not needed with O(offline) or O(source_dir)
options:
  repo_id:
    description: Model repository, as in V(MiniMaxAI/MiniMax-M2.5).
    type: str
    required: true
  revision:
    description:
      - Branch, tag or commit.
      - Give a full commit id in production. It never moves, and a run with nothing to do then needs no network.
    type: str
    default: main
  dest:
    description:
      - Absolute path of the folder for the snapshot. It is made when it does not exist.
      - A folder that holds another repository is refused.
    type: path
    required: true
  token:
    description:
      - Access token for gated and private repositories.
      - Without O(token) and O(token_file) the environment variable E(HF_TOKEN) of the task is used. Ansible itself
        passes the C(environment) of a task on a command line, so prefer O(token_file) on a shared node.
      - The download process gets it on its standard input. It appears in no argument list, environment or result.
    type: str
  token_file:
    description:
      - Path of a file on the node that holds the token and nothing else. Blanks around it are ignored.
      - A file that cannot be read, or is empty, fails the run.
      - Mutually exclusive with O(token).
    type: path
    version_added: 1.1.0
  endpoint:
    description: Address of the Hub or of a mirror. The environment variable E(HF_ENDPOINT) is not read.
    type: str
    default: https://huggingface.co
  allow_patterns:
    description:
      - Files to have, as patterns on the whole path. V(*) also matches C(/), and C(folder/) means all below it.
      - Without them everything is taken, except what repeats the safetensors of the root in another form, such as
        C(original/), C(metal/), C(consolidated*.safetensors), C(*.gguf) and pickles. RV(findings) names these files.
      - A model is never split. When some shards of an index match, all of them are taken.
    type: list
    elements: str
  ignore_patterns:
    description: Files to leave out, as patterns like those of O(allow_patterns).
    type: list
    elements: str
  allow_pickle:
    description: Whether weights in pickle formats may be downloaded. They can run any code when they are loaded.
    type: bool
    default: false
  verify:
    description:
      - V(sha256) proves the content of each file, by its SHA-256 or, where the Hub has none, by its git blob id.
      - V(header) proves sizes, safetensors headers and the content of small files. It does not find changed bytes
        inside of tensors.
    type: str
    choices:
      - sha256
      - header
    default: sha256
  reverify:
    description:
      - Whether to verify files again that nobody wrote to since they were verified.
      - This finds what a failing disk does. It reads every byte.
    type: bool
    default: false
  max_workers:
    description: Number of files that are fetched at the same time.
    type: int
    default: 8
  xet:
    description:
      - Whether to fetch by the Xet protocol, which needs hf_xet beside huggingface_hub.
      - V(auto) does so for the public Hub only, because Xet data does not come from the host of a mirror.
      - When Xet fails, the next attempt is by plain HTTP if no file is larger than 50 GB.
    type: str
    choices:
      - auto
      - "on"
      - "off"
    default: auto
  offline:
    description: Whether to send no request at all, and to fail when what is there is not complete and proven.
    type: bool
    default: false
  source_dir:
    description:
      - Folder on the node with the same snapshot, from which files are copied. Nothing is fetched from the Hub.
      - Each copy is proven, by the manifest of the folder when this module made it, by O(source_checksums), or
        by the hashes that the Hub lists. A folder with none of the three is refused.
      - A folder that this module made must have been made with the same patterns.
    type: path
  source_checksums:
    description:
      - Path of a file on the node with the SHA-256 of each file in O(source_dir), as C(sha256sum) writes it in that
        folder. Every file that is copied must be in it.
      - Without a manifest in O(source_dir), O(revision) must be the commit that the files are from. With one, both
        must agree.
    type: path
    version_added: 1.1.0
  source_transfer:
    description:
      - How files get from O(source_dir) to O(dest).
      - V(hardlink) takes no space and no time to copy, and needs both folders on one file system. The two names are
        then the same bytes, so what damages one damages both. Linking changes the C(ctime) of a source file, so the
        next run of this module for O(source_dir) hashes it again.
    type: str
    choices:
      - copy
      - hardlink
    default: copy
    version_added: 1.1.0
  min_free:
    description: Space that stays free on the file system of O(dest), in bytes or with a unit, as V(10GB) or V(10GiB).
    type: str
    default: 1GiB
  stall_timeout:
    description: Seconds without a byte after which the download process is ended and started again.
    type: int
    default: 300
  retries:
    description: Number of further attempts after one that proved no file more.
    type: int
    default: 5
  lock_timeout:
    description: Seconds to wait for another run on the same O(dest).
    type: int
    default: 3600
  prune:
    description:
      - Whether to remove files that an earlier run put to O(dest) and that are no longer wanted.
      - A file that was written to since then stays. Weights stay, and the run fails, when the patterns select none.
    type: bool
    default: false
  strict:
    description: Whether a doubt fails the run, as stale weights in O(dest) or an index that does not fit its shards.
    type: bool
    default: false
  progress_interval:
    description:
      - Seconds between two lines that tell how far the run is. V(0) for none.
      - The lines go to standard error, and AWX shows them in the output of the job.
      - Unless it is V(0), the module runs as a job on the node. When the connection is lost the task waits for it to
        come back, and when the whole play is ended the download goes on. A run that is started at that time waits for
        it, shows its progress, and finds the work done.
      - Not in check mode, and not with O(offline), where a run takes a moment.
    type: int
    default: 30
    version_added: 1.1.0
  python:
    description: Python interpreter that has huggingface_hub. By default the one that runs the module.
    type: path
seealso:
  - module: modelops.vllm.hf_snapshot_info
"""

EXAMPLES = r"""
- name: Have MiniMax-M2.5, proven
  modelops.vllm.hf_snapshot:
    repo_id: MiniMaxAI/MiniMax-M2.5
    revision: 0123456789abcdef0123456789abcdef01234567
    dest: /srv/models/MiniMaxAI/MiniMax-M2.5
    python: /opt/modelops/hub/bin/python

- name: Copy from a mounted disk without the Hub, proven by a list of checksums
  modelops.vllm.hf_snapshot:
    repo_id: MiniMaxAI/MiniMax-M2.5
    revision: 0123456789abcdef0123456789abcdef01234567
    dest: /srv/models/MiniMaxAI/MiniMax-M2.5
    source_dir: /mnt/transfer/MiniMax-M2.5
    source_checksums: /mnt/transfer/MiniMax-M2.5.sha256

- name: Prove on a node without network that nothing changed on the disk
  modelops.vllm.hf_snapshot:
    repo_id: MiniMaxAI/MiniMax-M2.5
    dest: /srv/models/MiniMaxAI/MiniMax-M2.5
    offline: true
    reverify: true
"""

RETURN = r"""
commit:
  description: The commit that O(revision) means.
  returned: when known
  type: str
  sample: 0123456789abcdef0123456789abcdef01234567
repo_id:
  description: The repository.
  returned: always
  type: str
files:
  description: Number of files in the snapshot.
  returned: always
  type: int
bytes_total:
  description: Size of all files in bytes.
  returned: always
  type: int
bytes_fetched:
  description: Bytes of the files that were fetched, or would be in check mode.
  returned: always
  type: int
fetched:
  description: Names of the files that were fetched, or would be in check mode.
  returned: always
  type: list
  elements: str
shards:
  description: The files that hold weights.
  returned: always
  type: dict
  contains:
    expected:
      description: Number of shards in the snapshot.
      type: int
    present:
      description: Number of shards that are in place and proven.
      type: int
    missing:
      description: Names of shards that are not there at the end of the run.
      type: list
      elements: str
    bad:
      description: Names of shards that were found damaged. When the run succeeded they were fetched again.
      type: list
      elements: str
verified:
  description: What was proven of every file.
  returned: always
  type: str
  sample: sha256
seconds:
  description: Duration of the run.
  returned: always
  type: float
attempts:
  description: Number of download attempts; 0 when nothing was to be fetched.
  returned: always
  type: int
findings:
  description: What there is to know, each with C(id), C(severity), C(message), C(numbers) and C(remedy).
  returned: always
  type: list
  elements: dict
manifest:
  description: Path of the manifest.
  returned: always
  type: str
"""

import shutil
import sys
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modelops.vllm.plugins.module_utils._errors import guarded
from ansible_collections.modelops.vllm.plugins.module_utils._hub.request import from_params
from ansible_collections.modelops.vllm.plugins.module_utils._hub.snapshot import make_snapshot


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "repo_id": {"type": "str", "required": True},
            "revision": {"type": "str", "default": "main"},
            "dest": {"type": "path", "required": True},
            "token": {"type": "str", "no_log": True},
            "token_file": {"type": "path", "no_log": False},
            "endpoint": {"type": "str", "default": "https://huggingface.co"},
            "allow_patterns": {"type": "list", "elements": "str"},
            "ignore_patterns": {"type": "list", "elements": "str"},
            "allow_pickle": {"type": "bool", "default": False},
            "verify": {"type": "str", "choices": ["sha256", "header"], "default": "sha256"},
            "reverify": {"type": "bool", "default": False},
            "max_workers": {"type": "int", "default": 8},
            "xet": {"type": "str", "choices": ["auto", "on", "off"], "default": "auto"},
            "offline": {"type": "bool", "default": False},
            "source_dir": {"type": "path"},
            "source_checksums": {"type": "path"},
            "source_transfer": {"type": "str", "choices": ["copy", "hardlink"], "default": "copy"},
            "min_free": {"type": "str", "default": "1GiB"},
            "stall_timeout": {"type": "int", "default": 300},
            "retries": {"type": "int", "default": 5},
            "lock_timeout": {"type": "int", "default": 3600},
            "prune": {"type": "bool", "default": False},
            "strict": {"type": "bool", "default": False},
            "progress_interval": {"type": "int", "default": 30},
            "python": {"type": "path"},
        },
        supports_check_mode=True,
    )
    scratch = tempfile.mkdtemp(prefix="modelops-hub-", dir=module.tmpdir)
    try:
        with guarded(module):
            request = from_params(module.params, sys.executable, scratch, module.check_mode)
            if request.token:  # it may come from a file or the environment, of which AnsibleModule knows nothing
                module.no_log_values.add(request.token)
            report = make_snapshot(request)
            diff = {"diff": report.diff()} if module._diff and report.changed else {}
            module.exit_json(**report.as_dict(), **diff)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
