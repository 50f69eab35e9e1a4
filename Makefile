# Everything here works on a machine that has only Python 3.11 or newer, pip, git and make:
# each target first creates .venv and installs into it what it needs.

PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
LIBRARY := $(VENV)/.library
DEV     := $(VENV)/.development
BRIDGES := .venv-bridges
INSTALL := $(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check
INSTALL_BRIDGES := $(INSTALL:$(BIN)/%=$(BRIDGES)/bin/%)
FAST    := tests/contracts tests/core/expressions tests/core/rewrite tests/core/sweeps
FUZZ    ?= 20000
NATIVE  ?= 1000
FILES   ?= 20000
ROOM    ?=
OLD     ?= main
NEW     ?= HEAD

.PHONY: help setup demo test test-fast test-bridges lint format generated site release fuzz prove mutants counts bench compare clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */  \1\t/' | expand -t 14

setup: $(DEV)  ## create .venv with the library and all development tools

# A new environment in the folder $(1), with pip. Some systems ship Python without ensurepip; there
# the system's pip fills it.
define environment
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "phipsi needs Python 3.11 or newer; found: $$($(PYTHON) --version 2>&1)." \
	         "Name another one:  make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
	@test -x $(1)/bin/pip || $(PYTHON) -m venv $(1) 2>/dev/null || \
	  { $(PYTHON) -m venv --clear --without-pip $(1) && \
	    $(PYTHON) -m pip --python $(1)/bin/python install --quiet pip; }
endef

# What pip would compile to bytecode is compiled where it is first imported: most of it never is.
$(LIBRARY): pyproject.toml
	$(call environment,$(VENV))
	@echo "installing phipsi into $(VENV)"
	@$(INSTALL) --editable .
	@touch $@

$(DEV): $(LIBRARY)
	@echo "installing the development tools into $(VENV) (a minute or two the first time)"
	@$(INSTALL) --editable '.[dev]'
	@sh scripts/system_packages.sh
	@touch $@

# PyTorch, JAX and Stable-Baselines3 take 1.7 GB, so they have an environment of their own. PyTorch
# comes first, with its version: a range, or a package that needs it, could bring the build for CUDA.
$(BRIDGES)/.installed: pyproject.toml
	$(call environment,$(BRIDGES))
	@echo "installing PyTorch, JAX and Stable-Baselines3 into $(BRIDGES)"
	@$(INSTALL_BRIDGES) torch==2.13.0
	@$(INSTALL_BRIDGES) jax
	@$(INSTALL_BRIDGES) stable-baselines3
	@$(INSTALL_BRIDGES) --editable '.[gym]' pytest pytest-xdist pytest-timeout hypothesis mujoco
	@touch $@

demo: $(LIBRARY)  ## show the library's main job
	$(BIN)/phipsi demo --out build/demo

# One BLAS thread per test process: the matrices are small, and there is a process per core.
test test-fast test-bridges fuzz: export OPENBLAS_NUM_THREADS := 1
# Where Python is told to leave no bytecode beside the sources, it is kept here: many processes start.
ifneq ($(PYTHONDONTWRITEBYTECODE),)
test test-fast test-bridges fuzz: export PYTHONDONTWRITEBYTECODE :=
test test-fast test-bridges fuzz: export PYTHONPYCACHEPREFIX := $(CURDIR)/.pytest_cache/bytecode
endif

# One room: its tests, its docstring examples, and the contracts between rooms.
test: setup  ## all tests and docstring examples, or those of rooms:  make test ROOM="contact native"
	@paths=$$($(BIN)/python scripts/room_paths.py $(ROOM)) && \
	  echo "pytest $${paths:-of everything}" && \
	  $(BIN)/python -m pytest -n auto --dist worksteal $$paths

test-fast: setup  ## contracts, expressions, rewriting and scheduling: a few seconds
	$(BIN)/python -m pytest -n auto --dist worksteal $(FAST)

# PyTorch's threads too: a process per core has one. `make test` leaves out tests/learning/bridges,
# which is collected only where it is named, not as a part of tests/learning.
test-bridges: export OMP_NUM_THREADS := 1
test-bridges: $(BRIDGES)/.installed  ## tests with PyTorch, JAX and Stable-Baselines3, in .venv-bridges
	$(BRIDGES)/bin/python -m pytest -n auto --dist worksteal tests/learning/bridges tests/learning/test_*bridge.py

lint: setup  ## ruff, pyright, docstrings, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/docstrings.py
	$(BIN)/pyright

format: setup  ## format the code and fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

generated: setup  ## write the stubs and pages that follow from the code: names, files, features
	$(BIN)/python scripts/public_names.py
	$(BIN)/python scripts/file_map.py
	$(BIN)/python scripts/supported_features.py
	$(BIN)/python scripts/printed_formulas.py

site: $(LIBRARY)  ## the documentation with a reference of every name, offline; writes build/site/index.html
	@$(INSTALL) --editable '.[docs]'
	$(BIN)/python docs/site/build_site.py

# Uploads nothing; .github/workflows/publish.yml does, on a tag.
release: $(LIBRARY)  ## build wheel and sdist, check them, and try the wheel with every Python found; writes dist
	@$(INSTALL) 'build>=1.2' 'twine>=6.0'
	$(BIN)/python scripts/release.py

# The tests whose cases `make test` draws a part of (tests/support/amounts.py), and the code that it
# compiles in a hurry.
fuzz: setup  ## more random cases than make test:  make fuzz FUZZ=100000
	PHIPSI_FUZZ=$(FUZZ) PHIPSI_FUZZ_NATIVE=$(NATIVE) PHIPSI_FUZZ_FILES=$(FILES) PHIPSI_LLVM_EFFORT=3 \
	  $(BIN)/python -m pytest -n auto --dist worksteal --timeout 0 \
	  $$(grep -rlE --include='test_*.py' '^from amounts import|quick_code' tests)

prove: setup  ## prove every identity exactly and refute its twins; writes docs/proofs.md
	$(BIN)/python scripts/prove.py

mutants: setup  ## deliberate faults that a test must notice, an hour or two; writes docs/mutants.md
	$(BIN)/python scripts/mutants.py --write

counts: setup  ## what the library is made of: lines, loops, twins, cycles; writes docs/counts.md
	$(BIN)/python scripts/counts.py --write

bench: setup  ## time against Pinocchio, MuJoCo and Drake; writes benchmarks/RESULTS.md
	@$(INSTALL) --editable '.[bench]'
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/batches.py
	$(BIN)/python benchmarks/loading.py
	$(BIN)/python benchmarks/live_pages.py
	$(BIN)/python benchmarks/closed_chains.py
	$(BIN)/python benchmarks/derivatives.py
	$(BIN)/python benchmarks/grasps.py
	$(BIN)/python benchmarks/calls.py
	$(BIN)/python benchmarks/runs.py
	$(BIN)/python benchmarks/contacts.py
	$(BIN)/python benchmarks/gymnasium_contacts.py
	$(BIN)/python benchmarks/molecules.py

compare: setup  ## two commits against each other, interleaved:  make compare OLD=main NEW=HEAD
	@$(INSTALL) --editable '.[bench]'
	$(BIN)/python benchmarks/compare.py $(OLD) $(NEW)

clean:  ## remove .venv, caches and build output
	rm -rf $(VENV) $(BRIDGES) build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
