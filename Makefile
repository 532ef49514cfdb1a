# make demo   the main job on this machine: download, verify, plan, serve, measure, report (README)
# make test   everything that is tested: unit, integration, molecule
# make lint   every official check;   make bench   the project's own performance, as ratios beside its peers
SHELL := /bin/bash
BIN := $(CURDIR)/.venv/bin
LINK := .ansible/collections/ansible_collections/modelops/vllm
ENV := . scripts/env.sh && export PATH="$(BIN):$$PATH" ANSIBLE_HOME="$(CURDIR)/.ansible" MOLECULE_GLOB="molecule/*/molecule.yml"
SCENARIOS := $(sort $(notdir $(patsubst %/molecule.yml,%,$(wildcard molecule/*/molecule.yml))))

.PHONY: setup demo demo-clean test unit integration molecule lint sanity importer bench docs release clean $(SCENARIOS:%=molecule-%)

setup: .venv/.made $(LINK)
	@scripts/system_packages.sh
	@scripts/node_image.sh
	@scripts/podman_node.sh
	@scripts/cpu_vllm.sh
	@scripts/test_models.sh
	@scripts/promtool.sh

.venv/.made: requirements-dev.txt
	@scripts/system_packages.sh
	@$(ENV) && step "tools in .venv" && "$$SYSTEM_PYTHON" -m venv .venv && $(BIN)/pip install -q -r $< && touch $@

# Ansible finds a collection only at ansible_collections/NAMESPACE/NAME: a link makes any checkout that place.
$(LINK):
	@mkdir -p $(@D) && ln -sfn ../../../.. $@

demo: setup
	@$(ENV) && scripts/demo.sh

demo-clean:
	@$(ENV) && scripts/demo.sh clean

# Most of the time a part waits for a container: two go side by side, the longest begin. LANES=1 shows everything as it happens.
LANES ?= 2
# `make test` has what every change can break, in 40 minutes; `make molecule` has every scenario, and takes twice as long.
TESTED := serve serve_chaos deploy_minimax_cpu weights_site deploy_minimax preflight weights monitoring
LONGEST := serve_nodes serve_chaos serve tournament serve_podman replicas
EVERY := $(LONGEST) $(filter-out $(LONGEST),$(SCENARIOS))

test: unit
	@scripts/lanes.sh $(LANES) integration $(TESTED:%=molecule-%)

# The slow unit tests wait for each other's timeouts, not for a core.
WORKERS ?= 4
unit: setup
	@$(ENV) && step unit && pytest -q -n $(WORKERS) -m "slow or not slow" tests/unit

integration: setup
	@$(ENV) && step integration && MODELOPS_HUB_PYTHONS="$$HUB_OLD_VENV/bin/python:$$HUB_1X_VENV/bin/python:$(BIN)/python" pytest -q -m "slow or not slow" tests/integration

molecule: setup
	@scripts/lanes.sh $(LANES) $(EVERY:%=molecule-%)

$(SCENARIOS:%=molecule-%): molecule-%: setup
	@$(ENV) && step "molecule $*" && molecule test -s $*

lint: setup sanity importer
	@$(ENV) && step ruff && ruff check . && ruff format --check .
	@$(ENV) && step mypy && mypy plugins/module_utils plugins/filter
	@$(ENV) && step yamllint && yamllint .
	@$(ENV) && step ansible-lint && ansible-lint --offline --profile production
	@$(ENV) && step antsibull-docs && antsibull-docs lint-collection-docs --plugin-docs --validate-collection-refs self --check-extra-docs-refs .
	@$(ENV) && step antsibull-changelog && antsibull-changelog lint

# ansible-test and galaxy-importer want the files at a real path and out of git's reach: scripts/checks.sh gives them a copy.
sanity importer: setup
	@$(ENV) && scripts/checks.sh $@

# Every supported ansible-core in an environment of its own.
core-matrix: setup
	@$(ENV) && scripts/core_matrix.sh

docs: setup
	@$(ENV) && scripts/docs.sh

release: setup
	@$(ENV) && scripts/release.sh "$(VERSION)"

bench: setup
	@scripts/bench_clients.sh
	@$(ENV) && for bench in tests/bench/bench_*.py; do PYTHONPATH=.ansible/collections:tests/support python "$$bench" || exit 1; done

clean: demo-clean
	rm -rf .ansible .cache .venv dist
