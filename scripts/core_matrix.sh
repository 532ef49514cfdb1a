#!/usr/bin/env bash
# Every supported ansible-core in an environment of its own: all playbooks are parsed, plan.yml runs, and the unit tests of the
# plugins. A deprecation warning fails, as does an error. usage: core_matrix.sh [CORE ...]
set -euo pipefail
shopt -s inherit_errexit
. "$(dirname "$0")/env.sh"
cd "$ROOT"

# The releases, and the Pythons that each takes on the controller. Source: the support matrix of ansible-core.
declare -A PYTHONS=(
  [2.17]="3.10 3.11 3.12"
  [2.18]="3.11 3.12 3.13"
  [2.19]="3.11 3.12 3.13"
  [2.20]="3.12 3.13 3.14"
  [2.21]="3.12 3.13 3.14"
)

python_for() { # the first interpreter of this machine that the release takes
  local version python
  for version in ${PYTHONS[$1]}; do
    for python in "/usr/bin/python$version" "python$version"; do
      # It must run: a shim of pyenv is found for versions that are not in use.
      if "$python" -c "import venv" 2>/dev/null; then
        command -v "$python"
        return
      fi
    done
  done
  return 1
}

environment_of() { # the environment with that release, made once
  local core=$1 python=$2 venv
  venv=$CACHE/core-$core-$(basename "$python")
  if [ ! -e "$venv/.made" ]; then
    rm -rf "$venv"
    "$python" -m venv "$venv"
    # Beside it what the unit tests import, as make setup has it.
    grep -E '^(huggingface_hub|matplotlib|pytest)=' requirements-dev.txt >"$venv/tools.txt"
    "$venv/bin/pip" install -q "ansible-core~=$core.0" -r "$venv/tools.txt" >&2
    touch "$venv/.made"
  fi
  echo "$venv"
}

quietly() { # run, and show the output only when it fails or when something is deprecated
  local log
  log=$(mktemp)
  "$@" >"$log" 2>&1 || { cat "$log" && rm "$log" && die "failed: $*"; }
  ! grep -i deprecat "$log" || { rm "$log" && die "deprecated with this ansible-core: $*"; }
  rm "$log"
}

if [ $# = 0 ]; then
  mapfile -t wanted < <(printf '%s\n' "${!PYTHONS[@]}" | sort -V)
else
  wanted=("$@")
fi
export ANSIBLE_COLLECTIONS_PATH=$ROOT/.ansible/collections ANSIBLE_DEPRECATION_WARNINGS=1 ANSIBLE_LOCALHOST_WARNING=0
export ANSIBLE_INVENTORY_UNPARSED_WARNING=0 ANSIBLE_NOCOLOR=1
failed=()
for core in "${wanted[@]}"; do
  [ -n "${PYTHONS[$core]:-}" ] || die "ansible-core $core is not one of ${!PYTHONS[*]}"
  if ! python=$(python_for "$core"); then
    step "ansible-core $core: left out, it needs Python ${PYTHONS[$core]} and none of them is here"
    continue
  fi
  venv=$(environment_of "$core" "$python")
  step "ansible-core $("$venv/bin/python" -c 'import ansible.release as r; print(r.__version__)') on $("$python" -V)"
  export ANSIBLE_HOME=$CACHE/core-$core-home
  for playbook in playbooks/*.yml; do
    quietly "$venv/bin/ansible-playbook" --syntax-check "$playbook"
  done
  quietly "$venv/bin/ansible-playbook" playbooks/plan.yml -e model_profile=minimax_m2_5 -e hardware_profile=rtx_pro_6000_x8 \
    -e '{"plan_live": "false", "plan_nodes": null, "plan_layouts": ""}'
  "$venv/bin/python" -m pytest -q -p no:warnings tests/unit/plugins || failed+=("$core")
done
[ ${#failed[@]} = 0 ] || die "unit tests failed with ansible-core ${failed[*]}"
