# Each target makes its own virtual environment; only Python 3.11+ and make are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SHELL := /bin/bash

.PHONY: demo test test-slow test-lowest coverage check snapshot audit audit-quick fuzz fuzz-guided bench bench-means bench-regression bench-sparse bench-em bench-speed reproduce reproduce-quick docs wheel clean

$(BIN)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e ".[dev,dask]"
	touch $@

demo: $(BIN)/.installed
	$(BIN)/python examples/demo.py

test: $(BIN)/.installed
	$(BIN)/python -m pytest -n 2 tests src/fattail README.md docs/*.md docs/*/*.md

# What the default tests run of the package, by lines and branches.
coverage: $(BIN)/.installed
	$(BIN)/python -m pytest -q -n 2 --cov --cov-report=term:skip-covered tests src/fattail docs/*.md docs/*/*.md

test-slow: $(BIN)/.installed
	$(BIN)/python -m pytest -m slow tests

# The default tests with each dependency and extra at the lowest version that pyproject.toml allows. These old versions use newer
# versions of their own dependencies, whose deprecation warnings are ignored.
$(VENV)-lowest/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install --quiet --upgrade pip uv
	$(VENV)-lowest/bin/uv pip install --quiet --python $(VENV)-lowest/bin/python --resolution lowest-direct -e ".[dev,dask]"
	touch $@

test-lowest: $(VENV)-lowest/.installed
	$(VENV)-lowest/bin/python -m pytest -n 2 -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning -W ignore::FutureWarning tests src/fattail

check: $(BIN)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python scripts/floats.py

# Record the public names, parameters, attributes and methods as they are now; read the difference before you commit it.
snapshot: $(BIN)/.installed
	$(BIN)/python scripts/api.py --write
	$(BIN)/python scripts/methods.py --write

audit: $(BIN)/.installed
	$(BIN)/python benchmarks/audit.py

# Every registered method attacked in two ways at one epsilon, after a change: five minutes of one core; nothing is written.
audit-quick: $(BIN)/.installed
	$(BIN)/python benchmarks/audit_recorder.py --quick
	$(BIN)/python benchmarks/audit.py --quick --seconds 1.5 --workers 1

# A million damaged files and hostile arrays; about a quarter of an hour on one core.
fuzz: $(BIN)/.installed
	$(BIN)/python fuzz/run.py --write

# The readers of files again, steered by coverage; about twenty minutes on one core.
fuzz-guided: $(BIN)/.installed
	$(BIN)/python -m pip install --quiet -e ".[fuzz]"
	$(BIN)/python fuzz/guided.py --all 150

bench: bench-means bench-regression bench-sparse bench-em bench-speed

bench-means bench-regression bench-sparse bench-em: bench-%: $(BIN)/.installed
	$(BIN)/python benchmarks/$*.py

bench-speed: $(BIN)/.installed
	$(BIN)/python benchmarks/speed_kernels.py
	$(BIN)/python benchmarks/scale_out.py

# Wheel and sdist, built and then used in a new environment, away from the source.
wheel: $(BIN)/.installed
	$(BIN)/python scripts/smoke.py

$(VENV)-docs/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-docs/bin/python -m pip install --quiet -e ".[docs]"
	touch $@

docs: $(VENV)-docs/.installed
	rm -rf docs/generated
	$(VENV)-docs/bin/sphinx-build -W --keep-going -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

# All figures and tables of the papers into report/index.html; real data are read from FATTAIL_DATA or ../shared/data.
# On two free cores about two hours, the quick version about four minutes; an interrupted run resumes.
reproduce: $(BIN)/.installed
	$(BIN)/python -m reproduction

reproduce-quick: $(BIN)/.installed
	$(BIN)/python -m reproduction --quick

clean:
	rm -rf $(VENV) $(VENV)-docs $(VENV)-lowest docs/_build docs/generated docs/estimators.md docs/gallery demo-page build dist .pytest_cache .mypy_cache .ruff_cache
