# Every target makes or updates .venv by itself, and only when pyproject.toml or constraints.txt changed.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: help demo test test-cluster lint format bench clean

help:  ## Show what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(STAMP)  ## Adapt the embedded network to corrupted images, print a table, write a report
	@$(BIN)/midway demo

test: $(STAMP)  ## Run the tests, doctests included
	@echo "==> Testing"
	@$(BIN)/python -m pytest

test-cluster: $(STAMP)  ## Run the tests that start a Ray cluster of three nodes here
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[cluster]'
	@echo "==> Testing on a cluster"
	@$(BIN)/python -m pytest -m cluster tests

lint: $(STAMP)  ## Check style and types
	@echo "==> Checking style and types"
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

format: $(STAMP)  ## Put the code into the house style
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

bench: $(STAMP)  ## Measure speed; results go to runs/benchmarks
	@echo "==> Corruptions, batched against one image at a time"
	@$(BIN)/python benchmarks/corruptions_speed.py
	@echo "==> MITA against a plain implementation"
	@$(BIN)/python benchmarks/mita_speed.py
	@echo "==> MEMO on many images at once"
	@$(BIN)/python benchmarks/memo_speed.py
	@echo "==> EATA through the selected images alone"
	@$(BIN)/python benchmarks/eata_speed.py

clean:  ## Remove the environment and caches (results in runs/ stay)
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Midway needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.11"; exit 1; }
	@echo "==> Setting up .venv (once; again only when pyproject.toml or constraints.txt changes)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@
