# Everything runs in a local .venv; the first target that needs it makes it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.demo
BROWSER_STAMP := $(VENV)/.browser
DOCS_STAMP := $(VENV)/.docs
WHEEL_STAMP := $(VENV)/.wheel
# The tools that groupdp works inside, in an environment of their own: they bring PyTorch and JAX.
TOOLS := .venv-integrations
TOOLS_STAMP := $(TOOLS)/.installed
# The extension is optional: a build that fails would leave the one before in its place.
KERNEL = src/groupdp/engines/spectral/_kernel$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
# Ends with one sentence unless $(PYTHON) is recent enough: before pip is run, whose own sentence is hard to read.
NEW_ENOUGH = @$(PYTHON) -c 'import sys; sys.exit("groupdp needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ": name another one, for example make PYTHON=python3.11.") if sys.version_info < (3, 11) else None'

# Tests start hundreds of interpreters: compiled modules are kept, also where the environment says otherwise.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-integrations test-browser test-pythons test-configurations docs wheel study fuzz bench profile clean

demo: $(DEMO_STAMP)  ## install with all extras for users, then draw the paper's figures and print what was measured
	$(BIN)/groupdp figures --out figures --force

test: $(STAMP)  ## install, then lint, types, tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(MAKE) --no-print-directory --jobs=2 types suite

# Side by side: each takes its turn where the other waits, and both are run whatever the other finds.
.PHONY: types suite
types: $(STAMP)
	$(BIN)/mypy
suite: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-browser: $(BROWSER_STAMP)  ## the page, and the documentation from disk, in the system's Chromium, driven by Playwright
	@command -v chromium > /dev/null || { echo 'make test-browser needs Chromium on the path: apt-get install chromium (Debian, Ubuntu), or your system'"'"'s package of that name.' >&2; exit 1; }
	$(BIN)/python -m pytest tests_browser

test-integrations: $(TOOLS_STAMP)  ## install Opacus, JAX Privacy, dp_accounting, riskcal and transformers, then train with them
	GROUPDP_TOOLS=all OMP_NUM_THREADS=1 $(TOOLS)/bin/python -m pytest -n 2 tests/integrations

test-pythons:  ## the tests under each of Python 3.11, 3.12 and 3.13 that is found, each in an environment of its own
	$(NEW_ENOUGH)
	$(PYTHON) tools/configurations.py pythons

test-configurations:  ## make test of a fresh clone: other Pythons, a path with a space, another user, LC_ALL=C, no AVX
	$(NEW_ENOUGH)
	$(PYTHON) tools/configurations.py clones

docs: $(DOCS_STAMP)  ## the guides as a site, in build/site; a warning or a dead link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo 'The site is in build/site: open build/site/index.html.'

wheel: $(WHEEL_STAMP)  ## sdist and wheel in dist/, installed into empty environments without a compiler and tried out
	$(BIN)/python tools/wheel.py

study: $(STAMP)  ## slow: every case of the tests, both engines on thousands of random runs, the audit at full size, certificates, mutations of their checker and of the kernel
	$(BIN)/python -m pytest -n 2 --dist worksteal --whole
	$(BIN)/python studies/engines_agree.py
	$(BIN)/python studies/audit_tightness.py
	$(BIN)/python studies/certificates.py
	$(BIN)/python studies/mutations.py
	$(BIN)/python studies/containment.py
	PYTHONPATH=tests:tests/shared $(BIN)/python studies/oracle_golden.py
	PYTHONPATH=tests:tests/shared $(BIN)/python studies/vadhan_oracle.py
	$(BIN)/python studies/mechanisms_oracle.py
	$(BIN)/python studies/ledger_kills.py
	$(BIN)/python studies/allocation.py 2000 2026-11 studies/allocation_values.tsv
	$(BIN)/python studies/story.py

fuzz:  ## slow: 100 000 inputs for the kernel's C core under AddressSanitizer and UBSan, guided by coverage where there is clang
	$(PYTHON) studies/fuzz_kernel.py

bench: $(BROWSER_STAMP)  ## groupdp beside its peers, in an environment of their own; writes docs/internals/benchmarks.md
	$(BIN)/python benchmarks/environment.py
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/large.py
	$(BIN)/python benchmarks/data.py
	$(BIN)/python benchmarks/page.py
	$(BIN)/python benchmarks/load.py

profile: $(STAMP)  ## start-up and waiting times; where a call's time goes, and how far it is above the arithmetic it cannot do without
	$(BIN)/python benchmarks/waiting.py
	$(BIN)/python benchmarks/floor.py

$(BIN)/python:
	$(NEW_ENOUGH)
	$(PYTHON) -m venv $(VENV)

# Modules are compiled when they are imported: most of what is installed never is.
$(STAMP): pyproject.toml setup.py constraints.txt $(wildcard src/groupdp/engines/spectral/kernel/*) | $(BIN)/python
	rm -f $(KERNEL)
	$(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -c 'import groupdp.engines.spectral._kernel'
	touch $(STAMP)

$(DEMO_STAMP): pyproject.toml setup.py constraints.txt $(wildcard src/groupdp/engines/spectral/kernel/*) | $(BIN)/python
	rm -f $(KERNEL)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[all]'
	touch $(DEMO_STAMP)

$(BROWSER_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[browser,docs]'
	touch $(BROWSER_STAMP)

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	touch $(DOCS_STAMP)

$(WHEEL_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[wheel]'
	touch $(WHEEL_STAMP)

# PyTorch first and alone, at the pinned version: asked for by another package, the newest build comes with CUDA.
$(TOOLS_STAMP): pyproject.toml setup.py constraints-integrations.txt $(wildcard src/groupdp/engines/spectral/kernel/*)
	$(NEW_ENOUGH)
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-integrations.txt \
	  $(shell grep '^torch==' constraints-integrations.txt)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-integrations.txt \
	  --editable '.[cli,dp-accounting,opacus,jax-privacy,riskcal]' accelerate hypothesis pytest pytest-xdist transformers
	touch $(TOOLS_STAMP)

clean:
	rm -rf $(VENV) $(VENV)-3.* $(TOOLS) figures build dist src/groupdp/engines/spectral/*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
