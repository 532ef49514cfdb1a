#!/usr/bin/env bash
# The demo: a loopback Hub with a tiny but real model, one node, and the playbook that a GPU node gets.
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$ROOT"

if [ "${1:-}" = clean ]; then
  if [ -x .venv/bin/ansible-playbook ] && command -v podman >/dev/null; then
    ansible-playbook -i localhost, tests/support/demo/down.yml >/dev/null
  fi
  rm -rf .demo reports/demo
  exit 0
fi

step "Hub and node"
mkdir -p .demo
ansible-playbook -i localhost, tests/support/demo/up.yml >.demo/up.log || { cat .demo/up.log; exit 1; }
# The Hub is needed for the download only; the node goes on serving until make demo-clean.
trap 'podman kill modelops-demo-hub >/dev/null 2>&1 || true' EXIT
step "ansible-playbook -i inventories/demo playbooks/deploy.yml -e model_profile=demo_moe"
ansible-playbook -i inventories/demo playbooks/deploy.yml -e model_profile=demo_moe "$@"
echo
cat reports/demo/report.txt
echo "The report: $ROOT/reports/demo/report.html (and report.md)"
