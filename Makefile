# Everything runs in a local .venv; the first target that needs it makes it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test study bench profile clean

demo: $(STAMP)  ## install, then draw the paper's figures and print what was measured
	$(BIN)/groupdp figures --out figures

test: $(STAMP)  ## install, then lint, types, tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2

study: $(STAMP)  ## slow: both engines on thousands of random runs, and the audit at full size
	$(BIN)/python studies/engines_agree.py
	$(BIN)/python studies/audit_tightness.py

bench: $(STAMP)  ## groupdp beside its peers, which get an environment of their own; writes docs/benchmarks.md
	$(BIN)/python benchmarks/environment.py
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/data.py

profile: $(STAMP)  ## where a call's time goes, and how far it is above the arithmetic it cannot do without
	$(BIN)/python benchmarks/floor.py

$(STAMP): pyproject.toml setup.py constraints.txt $(wildcard src/groupdp/engines/spectral/kernel/*)
	$(PYTHON) -c 'import sys; sys.exit("groupdp needs Python 3.10 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 10) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) figures build dist src/groupdp/engines/spectral/*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
