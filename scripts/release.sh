#!/usr/bin/env bash
# A release: galaxy.yml, changelog and the tarball in dist/, made and checked in a copy. The checkout is written to at the end only,
# when all checks have passed; nothing is committed, tagged or published. A release that is prepared already is built again.
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$ROOT"

# What Galaxy takes. Whatever else lies in the repository is named in build_ignore of galaxy.yml.
ENTRIES="CHANGELOG.rst CODE_OF_CONDUCT.md CONTRIBUTING.md COPYING FILES.json MANIFEST.json README.md SECURITY.md
  changelogs docs meta playbooks plugins roles"
MAX_BYTES=1000000
copy=.cache/release/ansible_collections/modelops/vllm

# Sections of the changelog that have something in a fragment that is still to be released.
sections() { find changelogs -path '*/fragments/*.y*ml' -exec sed -nE 's/^([a-z_]+):.*/\1/p' {} + | sort -u; }

check_version() {
  local last=$1 version=$2 found
  [[ $version =~ ^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$ ]] ||
    die "VERSION='$version' is no version such as 1.2.3: make release VERSION=1.2.3"
  [ "$version" != "$last" ] || return 0
  printf '%s\n%s\n' "$last" "$version" | sort -VC || die "$version is older than $last, the last release of the changelog"
  found=$(sections)
  [ -n "$found" ] || die "there is nothing to release: changelogs/fragments has no fragment"
  if grep -qxE 'breaking_changes|removed_features' <<<"$found" && [ "${version%%.*}" = "${last%%.*}" ]; then
    die "a fragment has breaking_changes or removed_features: by semantic versioning this is $((${last%%.*} + 1)).0.0, not $version"
  fi
  if grep -qxE 'major_changes|minor_changes|deprecated_features' <<<"$found" && [ "${version%.*}" = "${last%.*}" ]; then
    die "a fragment has a new feature or a deprecation: by semantic versioning this is more than the patch $version"
  fi
}

check_tarball() {
  local tarball=$1 files top links lost bytes
  files=$(tar -tzf "$tarball" | sed 's|^\./||; s|/$||' | sort)
  top=$(cut -d/ -f1 <<<"$files" | sort -u | grep -vxF "$(tr -s ' \n' '\n' <<<"$ENTRIES")" | xargs) || true
  [ -z "$top" ] || die "the tarball has what Galaxy does not need: $top. Add it to build_ignore in galaxy.yml."
  links=$(tar -tvzf "$tarball" | grep -v '^[-d]' || true)
  [ -z "$links" ] || die "the tarball has links: $links"
  lost=$(comm -23 <(cd "$copy" && git ls-files -co --exclude-standard -- meta playbooks plugins roles | sort) <(echo "$files") | xargs)
  [ -z "$lost" ] || die "build_ignore of galaxy.yml leaves out what is needed at run time: $lost"
  bytes=$(stat -c %s "$tarball")
  [ "$bytes" -lt "$MAX_BYTES" ] || die "the tarball has $bytes bytes; it shall have less than $MAX_BYTES"
}

version=${1:-}
last=$(sed -nE 's/^  ([0-9]+\.[0-9]+\.[0-9]+):$/\1/p' changelogs/changelog.yaml | sort -V | tail -1)
check_version "${last:-0.0.0}" "$version"
changed=$(git status --porcelain)
[ -z "$changed" ] || die "the checkout has changes that are not committed, and a release is made of commits:"$'\n'"$changed"

step "a copy of the checkout"
rm -rf .cache/release && mkdir -p "$copy"
git ls-files -z | xargs -0 cp --parents -t "$copy"
git -C "$copy" init -q
if [ "$version" != "$last" ]; then
  step "changelog of $version"
  sed -i "s/^version: .*/version: $version/" "$copy/galaxy.yml"
  (cd "$copy" && antsibull-changelog release --version "$version")
fi
grep -qx "version: $version" "$copy/galaxy.yml" || die "galaxy.yml has another version than the changelog, which ends with $version"

# The tarball that was checked is the one that is released.
(cd "$copy" && scripts/checks.sh importer)
tarball=modelops-vllm-$version.tar.gz
check_tarball "$copy/.cache/importer/$tarball"

mkdir -p dist && cp "$copy/.cache/importer/$tarball" dist/
if [ "$version" != "$last" ]; then
  cp "$copy/galaxy.yml" "$copy/CHANGELOG.rst" .
  cp "$copy/changelogs/changelog.yaml" changelogs/
  for fragment in changelogs/fragments/*; do [ -e "$copy/$fragment" ] || rm "$fragment"; done
fi
step "dist/$tarball: $(stat -c %s "dist/$tarball") bytes, $(tar -tzf "dist/$tarball" | grep -vc '/$') files"
cat <<END
To publish it, when git diff shows what you expect:
  git add galaxy.yml CHANGELOG.rst changelogs && git commit -m "Release $version"
  git tag -s -m "modelops.vllm $version" $version && git push origin HEAD $version
  ansible-galaxy collection publish dist/$tarball
END
