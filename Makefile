# `make demo` and `make test` need nothing but Python >= 3.11 (with venv) and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= auto

.PHONY: demo test quality check format lock clean

demo: $(STAMP)
	@$(BIN)/rebalancer demo

test: $(STAMP)
	$(BIN)/python -m pytest -q -n $(WORKERS)

# How good plans are against exact optima; make quality DUMP=PATH adds a recorded cluster.
quality: $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bench.lock
	$(BIN)/python -m bench.quality $(if $(DUMP),--from $(DUMP)) $(ARGS)

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The lock holds hashes of every dependency; `make lock` renews it.
lock: $(STAMP)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --universal --generate-hashes --python-version 3.11 --no-emit-index-url \
		--extra dev --custom-compile-command "make lock" --quiet -o requirements.lock pyproject.toml
	$(BIN)/uv pip compile --universal --generate-hashes --python-version 3.11 --no-emit-index-url \
		--custom-compile-command "make lock" --quiet -c requirements.lock -o requirements-runtime.lock pyproject.toml
	$(BIN)/uv pip compile --universal --generate-hashes --python-version 3.11 --no-emit-index-url \
		--extra bench --custom-compile-command "make lock" --quiet -c requirements.lock \
		-o requirements-bench.lock pyproject.toml

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "make: Python >= 3.11 is needed; say which with: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Setting up $(VENV) from requirements.lock (once) ..." >&2
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
