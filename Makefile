# Every target creates or updates .venv by itself, and only when pyproject.toml or constraints.txt changed.
PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
EXTRAS ?= dev
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS)

.PHONY: help demo test chaos endurance test-cluster test-minimum test-quick docs test-docs coverage lint format hooks bench clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(STAMP)  ## Adapt the embedded network to corrupted images, print a table, write a report
	@$(BIN)/midway demo

test: $(STAMP)  ## Run the tests and doctests; fails below the coverage that pyproject.toml requires
	@echo "==> Testing"
	@$(BIN)/python -m pytest -n auto --dist worksteal --cov --cov-report=

coverage: $(STAMP)  ## List the lines that the last `make test` did not run
	@$(BIN)/coverage report --show-missing --fail-under=0

docs: $(STAMP)  ## Build the documentation site into site/, strictly, and check its links
	@$(PIP_INSTALL) --editable '.[docs]'
	@echo "==> Building the site"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@$(BIN)/python recipes/check_site.py site
	@echo "Read it: $(BIN)/python -m http.server --directory site"

test-docs: $(STAMP)  ## Run the examples in the documentation, in the docstrings and in examples/
	@echo "==> Running the examples"
	@$(BIN)/python -m pytest tests/test_docs.py tests/test_examples.py src

test-cluster: $(STAMP)  ## Run the tests that start a Ray cluster of three nodes here
	@$(PIP_INSTALL) --editable '.[cluster]'
	@echo "==> Testing on a cluster"
	@$(BIN)/python -m pytest -m cluster tests

chaos: $(STAMP)  ## Kill, fill disks and damage files for some minutes; writes the table of docs/reliability.md
	@echo "==> Killing, filling and damaging"
	@$(BIN)/python tests/chaos/campaign.py --write docs/reliability.md
	@$(BIN)/python -m pytest -m chaos tests

endurance: $(STAMP)  ## Give each method 100,000 batches (MIDWAY_BATCHES); writes the second table of docs/reliability.md
	@echo "==> Adapting for a long time"
	@$(BIN)/python tests/chaos/endurance.py --write docs/reliability.md

test-minimum:  ## Run a part of the tests with the oldest versions that pyproject.toml allows, in .venv-minimum
	@$(MAKE) --no-print-directory test-quick VENV=.venv-minimum CONSTRAINTS=constraints-minimum.txt EXTRAS=test

test-quick: $(STAMP)
	@echo "==> Testing with $(CONSTRAINTS)"
	@$(BIN)/python -m pytest tests/bench tests/cli tests/data/corruptions tests/streams tests/report/test_figures.py

lint: $(STAMP)  ## Check style and types
	@echo "==> Checking style and types"
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

format: $(STAMP)  ## Format the code
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

hooks: $(STAMP)  ## Check every commit with pre-commit from now on
	@$(PIP_INSTALL) --editable '.[hooks]'
	@$(BIN)/pre-commit install

bench: $(STAMP)  ## Measure speed; results go to runs/benchmarks
	@echo "==> Corruptions, batched against one image at a time"
	@$(BIN)/python benchmarks/corruptions_speed.py
	@echo "==> MITA against a plain implementation"
	@$(BIN)/python benchmarks/mita_speed.py
	@echo "==> MEMO on many images at once"
	@$(BIN)/python benchmarks/memo_speed.py
	@echo "==> EATA through the selected images alone"
	@$(BIN)/python benchmarks/eata_speed.py
	@echo "==> What it costs to be able to undo a batch"
	@$(BIN)/python benchmarks/state_copy.py

clean:  ## Remove the environment, the site and caches (results in runs/ stay)
	rm -rf .venv .venv-minimum site .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* src/*.egg-info

$(STAMP): pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Midway needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.11"; exit 1; }
	@echo "==> Setting up $(VENV) (once; again only when pyproject.toml or $(CONSTRAINTS) changes)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) --editable '.[$(EXTRAS)]'
	@touch $@
