# Everything a person does here. `make` alone lists the targets.
# Needed: make and Python 3.11 or newer. For the tests on real servers also Java 17 and Maven.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Tried in this order; `make setup PYTHON=/path/to/python` names another one.
PYTHON ?=
PYTHONS := $(if $(PYTHON),$(PYTHON),python3 python3.13 python3.12 python3.11 python)
# Passed on: `make demo ARGS="--stack local"`, `make test ARGS="-k outbox"`, `make test ARGS="-n 0"`.
ARGS ?=
# What the images are built on, where a registry has it: `make images PYTHON_IMAGE=python:3.13-slim
# JAVA_IMAGE=eclipse-temurin:17-jre`. Empty: on this machine's own files (Linux).
PYTHON_IMAGE ?=
JAVA_IMAGE ?=
# `make compose-up WORKERS=3`.
WORKERS ?= 2
COMPOSE := docker compose --file compose/compose.yaml
# `make bench BUILD=pure`, `make bench BUILD=compiled`; without it compiled where that is possible.
BUILD ?=
CAN_COMPILE := command -v cc >/dev/null && $(BIN)/python -c 'import pathlib, sysconfig; \
	raise SystemExit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())'
COMPILED := build/compiled
COMPILED_STAMP := $(COMPILED)/.built
# Imports take the compiled build; `python -m` would look into the source tree first.
WITH_COMPILED := PYTHONSAFEPATH=1 PYTHONPATH="$(CURDIR)/$(COMPILED):$(CURDIR)"
# Not the page of the life-cycle: compiled modules have no docstrings.
COMPILED_TESTS := tests/unit/schemas tests/unit/consumers tests/unit/stores tests/unit/test_fold.py \
	tests/unit/test_resend.py --ignore tests/unit/schemas/test_diagrams.py
# How long `make faults` goes on.
MINUTES ?= 30
# `make simulate SEEDS=20000 JOBS=2 ARGS="--report bench/simulation-report.json"`.
SEEDS ?= 2000
JOBS ?= 2

LOCK_OPTIONS := --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	--no-emit-index-url --no-emit-find-links --all-extras
DEVELOPMENT := --group test --group check --group build
WORKER_LOCK := compose/images/worker/requirements.lock
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-compiled faults simulate check format docs compiled bench images compose-up compose-down lock hooks clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## make .venv with everything in it, exactly as locked (done by the other targets by themselves)

$(STAMP): requirements.lock pyproject.toml
	@set -e; \
	for candidate in $(PYTHONS); do \
		if "$$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			found="$$candidate"; break; \
		fi; \
	done; \
	if [ -z "$${found:-}" ]; then \
		echo "error: found no Python 3.11 or newer with its venv module (tried: $(PYTHONS))" >&2; \
		echo "hint: install one (Debian, Ubuntu: apt-get install python3 python3-venv), or name it:" >&2; \
		echo "      make setup PYTHON=/path/to/python3" >&2; \
		exit 1; \
	fi; \
	echo "setting up $(VENV) with $$("$$found" --version) ..." >&2; \
	[ -x $(BIN)/python ] || "$$found" -m venv $(VENV)
	@$(PIP) install --no-compile --require-hashes --requirement requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(STAMP) ## send messages, kill a worker and cut a client off meanwhile, count what was lost (30 s)
	@$(BIN)/twotick demo $(ARGS)

test: $(STAMP) ## run the tests; with Java and Maven there, also on real Kafka and Cassandra
	@$(BIN)/pytest -n auto $(ARGS)

simulate: $(STAMP) ## run SEEDS seeds of the simulation in JOBS processes; a failure prints how to repeat it
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS) --jobs $(JOBS) $(ARGS)

faults: $(STAMP) ## kill and pause real workers, clients and servers for MINUTES=30, then count what was lost
	$(BIN)/python -m tests.faults --minutes $(MINUTES) --report bench/faults-report.json $(ARGS)

check: $(STAMP) ## lint, formatting, types, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## format the code and mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP) ## write the generated pages in docs/ anew
	$(BIN)/python -m compose.docs

compiled: $(COMPILED_STAMP) ## compile the hot path into build/compiled (needs a C compiler and Python's headers)

$(COMPILED_STAMP): $(STAMP) hatch_build.py $(shell find schemas producers consumers compose -name '*.py' -o -name '*.avsc')
	@rm -rf $(COMPILED) build/wheel
	@HATCH_BUILD_HOOKS_ENABLE=1 $(BIN)/python -m hatchling build --target wheel --directory build/wheel
	@$(BIN)/python -m zipfile --extract build/wheel/*.whl $(COMPILED)
	@touch $@

test-compiled: $(COMPILED_STAMP) ## run the tests of what is compiled on build/compiled
	@$(WITH_COMPILED) TWOTICK_TEST_REQUIRE=compiled $(BIN)/pytest -o pythonpath="$(COMPILED) ." $(COMPILED_TESTS) $(ARGS)
	@$(WITH_COMPILED) $(BIN)/python -m tests.simulation --seeds 200 --jobs $(JOBS)

bench: $(STAMP) ## measure on the local stack, against the floor; BUILD=pure or compiled says what
	@build="$(BUILD)"; [ -n "$$build" ] || if $(CAN_COMPILE); then build=compiled; else build=pure; fi; \
	if [ "$$build" = compiled ]; then $(MAKE) --no-print-directory compiled || exit 1; export $(WITH_COMPILED); fi; \
	$(BIN)/python -m bench $(ARGS)

images: $(STAMP) ## build the container images: the worker's, and Kafka's and Cassandra's for places without a registry
	@$(BIN)/python -m compose.images --python-image "$(PYTHON_IMAGE)" --java-image "$(JAVA_IMAGE)" $(ARGS)

compose-up: ## start Kafka, Cassandra and WORKERS=2 workers in containers, and wait until they are healthy
	$(COMPOSE) up --detach --wait --scale worker=$(WORKERS) $(ARGS)

compose-down: ## end these containers; ARGS=--volumes also deletes what they stored
	$(COMPOSE) down $(ARGS)

lock: $(STAMP) ## resolve requirements.lock anew, with hashes, for every Python from 3.11 on
	$(PIP) install 'uv>=0.5,<1'
	$(BIN)/uv pip compile pyproject.toml $(LOCK_OPTIONS) $(DEVELOPMENT) --upgrade --output-file requirements.lock
	$(BIN)/uv pip compile pyproject.toml $(LOCK_OPTIONS) --constraint requirements.lock --output-file $(WORKER_LOCK)

hooks: $(STAMP) ## let git run the checks before each commit
	$(BIN)/pre-commit install

clean: ## remove .venv and everything that was built or cached here
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
