#!/usr/bin/env bash
# The two official checks that do not run in a checkout: ansible-test sanity and galaxy-importer.
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$ROOT"

case ${1:-} in
sanity)
  step "ansible-test sanity"
  copy=.cache/sanity/ansible_collections/modelops/vllm
  rm -rf "$copy" && mkdir -p "$copy"
  git ls-files -co --exclude-standard -z | while IFS= read -r -d '' f; do [ ! -e "$f" ] || printf '%s\0' "$f"; done |
    xargs -0 cp --parents -t "$copy"
  # ansible-test takes pip from a host of its own unless it lies in its cache: this stand-in takes it from the package index.
  export HOME=$ROOT/.cache/home
  install -D -m 644 scripts/get_pip.py "$HOME/.ansible/test/cache/get_pip_24_2.py"
  cd "$copy" && git init -q . && ansible-test sanity --local --python "${PY#py}" "${@:2}"
  ;;
importer)
  step galaxy-importer
  rm -rf .cache/importer && mkdir -p .cache/importer
  ansible-galaxy collection build -f --output-path .cache/importer . >/dev/null
  cd .cache/importer
  log=$(python -m galaxy_importer.main ./*.tar.gz 2>&1) || { echo "$log"; exit 1; }
  echo "$log" | grep -E 'WARNING|ERROR' && die "galaxy-importer has the remarks above"
  echo "$log" | tail -1
  ;;
*) die "usage: checks.sh sanity|importer" ;;
esac
