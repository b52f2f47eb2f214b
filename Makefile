# Bare `make` lists the targets. Everything runs from .venv, which `make setup` builds from the
# lock in requirements/; the other targets set it up themselves.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes \
	--no-emit-index-url --custom-compile-command "make lock"

# Each has a Spark session of its own: about 2 GB and one core. A third one on two cores gains
# nothing (measured: 16 min 4 s with two, longer with three).
WORKERS ?= 2

# A seed decides on a history, and 20 seeds in a row are one for each destination and pattern.
# SOAK="--verbose" prints the steps, SOAK="--resume" leaves out seeds that are in soak.jsonl.
HISTORIES ?= 100
SEED ?= 0
SOAK ?=

# Spark's workers must run the interpreter of the driver.
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(CURDIR)/$(BIN)/python

.DEFAULT_GOAL := help
.PHONY: help setup demo payments payments-proof proof-gallery mutants test soak soak-tests check bench lock clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | \
		while IFS='|' read -r name text; do printf '  make %-14s %s\n' "$$name" "$$text"; done

setup: $(INSTALLED) ## build .venv from the lock and fetch the connector jars, once
	@$(BIN)/python -m setpoint.spark.setup

demo: setup ## replay the incident: 430,000 rows by append, 250,000 through setpoint
	@$(BIN)/setpoint demo

payments: setup ## run a payments job before and after its repair; run it twice
	@$(BIN)/python examples/payments/run.py

payments-proof: setup ## prove the payments job: not proven before its repair, proven after it
	@$(BIN)/python examples/payments/prove.py

proof-gallery: setup ## prove broken and correct jobs: each broken one caught with its cause
	@$(BIN)/python gallery/run.py

mutants: setup ## break each guarantee of setpoint in a copy: a proof has to notice
	@$(BIN)/python gallery/mutants/run.py

test: setup ## run every test: unit, contract, spark, crash, stateful, cli
	@$(BIN)/python -m pytest tests --numprocesses $(WORKERS) --dist worksteal

soak: setup ## play random histories on all destinations: HISTORIES=n SEED=s
	@PYTHONPATH=tests:tests/stateful $(BIN)/python -m histories.soak --histories $(HISTORIES) --seed $(SEED) $(SOAK)

soak-tests: setup ## run the tests that take long for what others show in small
	@$(BIN)/python -m pytest tests -m soak

check: $(INSTALLED) ## lint, types, layers and unit tests; no JVM, under a minute
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/setpoint lint src examples
	@$(BIN)/python -m pytest tests/unit --quiet

bench: setup ## measure setpoint against hand-written PySpark and print the ratios
	@$(BIN)/python bench/run.py

lock: $(INSTALLED) ## resolve the dependencies again into requirements/
	@$(LOCK) --upgrade --group dev --all-extras pyproject.toml --output-file requirements/dev.txt
	@$(LOCK) --upgrade --group pyproject.toml:pip --output-file requirements/pip.txt

clean: ## remove .venv and everything that was built
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache \
		.hypothesis spark-warehouse metastore_db derby.log
	@find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "No $(PYTHON): install Python 3.10 or newer, \
	or name one: make setup PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "$(PYTHON) is older \
	than Python 3.10; name a newer one: make setup PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual \
	environment; on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }

# PySpark comes as source: its wheel is built here once and kept in pip's cache. Installing it
# takes minutes the first time, so the step says that it is at work.
$(INSTALLED): $(BIN)/python pyproject.toml requirements/dev.txt requirements/pip.txt
	@echo "Installing the locked packages into $(VENV) (PySpark is built once; minutes at first)"
	@$(PIP) install --require-hashes -r requirements/pip.txt
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@
