#!/usr/bin/env bash
# The documentation site: guides, and a page for each module, role and filter. Result: .cache/docs/build/html/index.html
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$ROOT"
site=.cache/docs
rm -rf "$site" && mkdir -p .cache && mkdir -m 700 "$site"
antsibull-docs sphinx-init --use-current --squash-hierarchy --dest-dir "$site" --project modelops.vllm \
  --title modelops.vllm --copyright "The modelops.vllm contributors" modelops.vllm >/dev/null
# Ansible's own site is not asked, so that the build needs no network.
echo "intersphinx_mapping = {}" >>"$site/conf.py"
sed -i 's/ -W --keep-going//' "$site/build.sh"
bash "$site/build.sh" >"$site/log" 2>&1 || { tail -30 "$site/log" >&2; die "the documentation does not build; its log is $site/log"; }
# Labels of Ansible's own documentation are the only ones that may be missing.
if grep -E "WARNING|ERROR" "$site/log" | grep -vE "undefined label: '(common_return_values|action_plugins|ansible_configuration_settings)'"; then
  die "the documentation has warnings; the log is $site/log"
fi
step "documentation in $site/build/html"
