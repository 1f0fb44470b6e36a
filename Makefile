# Needs Python >= 3.11 and make. Everything is installed into .venv inside the checkout;
# it is brought up to date whenever pyproject.toml or constraints.txt changes.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
INSTALL := $(RUN) -m pip install --quiet --constraint constraints.txt

.PHONY: help venv hooks demo unit test lint compiled bench docs clean

help:
	@echo "make demo   train on digits and breast-cancer, print a table, save a plot"
	@echo "make unit   the fast tests, on one core"
	@echo "make test   lint, type-check and test"
	@echo "make lint   lint and type-check only"
	@echo "make bench  install the benchmarks' peers, list the benchmarks"
	@echo "make docs   build the documentation site into build/docs, with a copy in Markdown"
	@echo "make venv   only set up .venv"
	@echo "make hooks  lint and type-check before each commit, run the fast tests before each push"
	@echo "make clean  remove caches and build products (not .venv)"

venv: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	@echo "Setting up $(VENV) (a minute or two, once)"
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --upgrade "pip>=25.1"  # the first with --group
	$(INSTALL) --editable ".[all]" --group test
	@touch $@ $(VENV)/.installed-demo

$(VENV)/.installed-demo: pyproject.toml constraints.txt
	@echo "Setting up $(VENV) for the demo"
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable ".[plot]"
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.installed
	$(INSTALL) --group bench
	@touch $@

hooks: venv
	$(INSTALL) --group hooks
	$(RUN) -m pre_commit install

demo: $(VENV)/.installed-demo
	$(RUN) examples/demo.py

lint: venv
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

unit: venv
	$(RUN) -m pytest -q -n0 -m "not slow" --ignore tests/benchmarks --durations=3 --durations-min=1

test: venv
	@$(MAKE) --no-print-directory --jobs=2 lint compiled
	$(RUN) -m pytest -q -n auto --dist worksteal

# What all tests need, while mypy leaves a core idle; else each worker of pytest compiles it.
compiled: venv
	@$(RUN) -m structboost warmup --jobs 1

bench: $(VENV)/.installed-bench
	$(RUN) -m benchmarks list
	@echo "Run one: $(RUN) -m benchmarks run NAME --data DIR [--only DATASET ...] --results DIR"

docs: venv
	$(INSTALL) --group docs
	@rm -rf docs/reference  # has pages of names that were renamed since
	$(RUN) -m sphinx -q -W --keep-going -b html docs build/docs
	$(RUN) -m sphinx -q -W --keep-going -a -b markdown docs build/docs
	@echo "The site is in build/docs/index.html"

clean:
	rm -rf build dist docs/gallery docs/reference .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path "./$(VENV)/*" -prune -exec rm -rf {} +
