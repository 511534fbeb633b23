# `make demo` and `make test` need Python >= 3.11 and make, nothing else:
# each builds the virtual environment it needs and reuses it the next time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
WORKERS ?= auto
SAMPLE ?= 60
JOBS ?= 1
PART ?=
TESTS := $(if $(PART),$(if $(filter core,$(PART)),tests --ignore=tests/apps,tests/$(PART)))

.PHONY: demo serve test test-slow coverage check size mutants bench docs dist clean

# The tests start hundreds of processes, which need not compile the package each time.
test test-slow coverage: export PYTHONDONTWRITEBYTECODE :=

demo: $(VENV)/.study
	$(BIN)/hushmeter demo --force -o demo-report

serve: $(VENV)/.page
	$(BIN)/hushmeter serve --open

# PART=core and PART=apps/live run the tests of one part of the house.
test: $(VENV)/.test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not slow" $(TESTS)

test-slow: $(VENV)/.test $(VENV)/.fuzz
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m slow

coverage: $(VENV)/.test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not slow" --cov=hushmeter --cov-report=term

# Types are checked against the optional parts too, so their extras are installed.
check: $(VENV)/.test $(VENV)/.check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.size --check

# The numbers of size.toml beside those of the source. MORE="--before REVISION" compares packages.
size: $(VENV)/.core
	$(BIN)/python -m tools.size $(MORE)

# Exit code 1 means that a change of the privacy core went unnoticed. MORE="--again" tries survivors again.
mutants: $(VENV)/.test
	$(BIN)/python -m tools.mutants --sample $(SAMPLE) --jobs $(JOBS) $(MORE)

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -E -W --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/extensions/offline_check.py docs/_build/html

dist: $(VENV)/.dist
	rm -rf dist
	$(BIN)/python -m build --quiet --outdir dist
	@ls dist

clean:
	rm -rf $(VENV) demo-report docs/_build build dist .mutants

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "hushmeter needs Python 3.11 or newer; name one with: make PYTHON=python3.12 demo"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing hushmeter into $(VENV) (a few minutes, once) ..."
	$(PIP_INSTALL) -e .
	@touch $@

# One stamp per extra: .test installs [test], .check installs [check], and so on.
$(VENV)/.%: $(VENV)/.core
	$(PIP_INSTALL) -e ".[$*]"
	@touch $@
