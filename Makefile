# `make demo` and `make test` need nothing but Python >= 3.11 (with venv) and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The demo has a small environment of its own, without what development needs; where that is, it serves as well.
DEMO := $(if $(wildcard $(STAMP)),$(VENV),.venv-demo)
WORKERS ?= auto
# A test that hangs ends its worker, with the stacks of its threads; the longest takes a minute here.
NO_HANG := -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true
# Tests that wait most of the time: more of them than there are cores, and not those that take longest last.
E2E_WORKERS ?= 4

.PHONY: demo test properties installs e2e e2e-assets e2e-built oracle conformance conformance-ci candidates bench growth policies quality fuzz dask mutants check format \
	docs pictures release image krew pages kubernetes-api lock clean

demo: $(DEMO)/.installed
	@$(DEMO)/bin/rebalancer demo

test: $(STAMP)
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal $(NO_HANG) $(ARGS)

# The properties alone, and tests with many cases that are alike, with all of them; `make test` tries one in sixteen.
properties: $(STAMP)
	REBALANCER_ALL_EXAMPLES=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal $(NO_HANG) -m "hypothesis or many_cases" $(ARGS)

# The same command against a real etcd, kube-apiserver, kube-controller-manager and kube-scheduler on loopback, of
# Kubernetes MINOR (1.34, 1.36 or 1.38). Programs in KUBEBUILDER_ASSETS are used; those missing are built once (Go >= 1.26).
# MINOR=1.26 is for second schedulers of its time: TESTS="tests/e2e/test_article_stack.py tests/e2e/test_network_traffic.py".
e2e: e2e-assets
	REBALANCER_E2E=1 REBALANCER_E2E_MINOR=$(MINOR) $(BIN)/python -m pytest -q -n $(E2E_WORKERS) --dist loadfile --no-loadscope-reorder $(or $(TESTS),tests/e2e) $(ARGS)

e2e-assets: $(STAMP)
	@$(BIN)/python -m tests.e2e.helm_program >/dev/null
	@REBALANCER_E2E_MINOR=$(MINOR) $(BIN)/python -m tests.e2e.assets

# Fails where e2e-assets would have to build something.
e2e-built: $(STAMP)
	@REBALANCER_E2E_MINOR=$(MINOR) $(BIN)/python -m tests.e2e.assets --only-find

# The wheels, installed by pip, pipx and uv with their dependencies from the package registry; and each container of
# each manifest, started with the packages of its image.
installs: $(STAMP)
	REBALANCER_INSTALLS=1 $(BIN)/python -m pytest -q -p no:cacheprovider tests/install $(ARGS)

# The real scheduler of a minor as a program that decides cases, built once (Go >= 1.26); all minors without MINOR.
oracle: $(STAMP)
	@$(BIN)/python -m tests.conformance.oracle.build $(MINOR)

# The model against that scheduler: recorded decisions first, then CASES random clusters of every family.
# make conformance MINOR=1.34 CASES=1000 SEED=7 ARGS="--keep FOLDER --table"
conformance: $(STAMP)
	REBALANCER_ORACLE=$(or $(MINOR),1.35) $(BIN)/python -m pytest -q tests/conformance/oracle
	$(BIN)/python -m tests.conformance.differential --minor $(or $(MINOR),1.35) --cases $(or $(CASES),100) \
		$(if $(SEED),--seed $(SEED)) $(ARGS)

# Whom we would evict, beside the real descheduler (Go >= 1.26, built once): CASES random clusters of every plugin.
candidates: $(STAMP)
	$(BIN)/python -m tests.conformance.descheduler.differential --cases $(or $(CASES),100) $(if $(SEED),--seed $(SEED)) $(ARGS)

# What CI compares: some thousand decisions of every minor whose oracle is cached, and of one that is built now.
conformance-ci: $(STAMP)
	@$(BIN)/python -m tests.conformance.ci --commit "$$(git rev-parse HEAD 2>/dev/null || true)" $(ARGS)

# How fast every stage is by the size of the cluster; make bench ARGS="--sizes 100/3000 --compare OLD.json".
bench: $(STAMP)
	@$(BIN)/python -m bench.suite $(ARGS)

# How the time to plan grows with moves and nodes, as exponents; make growth ARGS="--moves 50,100".
growth: $(STAMP)
	@$(BIN)/python -m bench.growth $(ARGS)

# What each policy of policies/ does on the demo's cluster; make policies DUMP=PATH adds a recorded cluster.
policies: $(STAMP)
	@$(BIN)/python -m bench.shipped_policies $(if $(DUMP),--from $(DUMP))

# How good plans are against exact optima; make quality DUMP=PATH adds a recorded cluster.
quality: $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bench.lock
	$(BIN)/python -m bench.quality $(if $(DUMP),--from $(DUMP)) $(ARGS)
	$(BIN)/python -m bench.consolidation $(if $(DUMP),--from $(DUMP))
	$(BIN)/python -m bench.strategies --write

# Coverage-guided fuzzing of everything that reads what others wrote, SECONDS for each decoder, JOBS at once;
# TARGETS="policy protobuf" limits it. Findings are kept in fuzz-findings/.
fuzz: $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-fuzz.lock
	$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),60) --jobs $(or $(JOBS),1) $(TARGETS)

# Searches with workers of Dask, which is what their extra installs: the same results as by one process.
dask: $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-tune.lock
	$(BIN)/python -m pytest -q tests/lab/timeline/test_dask.py tests/lab/timeline/test_places.py $(ARGS)

# Changes what evicts, remembers and decodes in one place at a time: its unit tests have to notice 95 % of a sample.
# MODULES="execution/lease state/run_state" limits it; ARGS="--each 0" tries every change. Takes an hour.
mutants: $(STAMP)
	nice -n 10 $(BIN)/python -m tools.mutants $(ARGS) $(MODULES)

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# What is kept of the Kubernetes API itself, taken from its Go modules (Go >= 1.26): the messages by which the embedded
# cluster reads protobuf, and the schemas that manifests are held to.
kubernetes-api: $(STAMP)
	@$(BIN)/python -m tests.kubernetes_api.messages
	@$(BIN)/python -m tests.kubernetes_api.schemas

# Everything that is generated from the code: pages of docs/ and parts of the chart. Tests compare them.
pages: $(STAMP)
	@$(BIN)/python -m tools.pages

# Terminals and the report as pictures, light and dark: those of the README in docs/pictures, all in build/pictures.
# PNGs need a Chromium.
pictures: $(STAMP)
	@$(BIN)/python -m tests.ux.pictures

# Everything that is published, of the commit that is checked out, in build/release/VERSION: built without a container
# engine, then installed and run from scratch. Says in a line each what this machine lacks. See docs/releasing.md.
release: $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.lock
	@$(BIN)/python -m tools.release $(or $(VERSION),$(error make release VERSION=0.2.0)) $(ARGS)

# The image without a container engine, with its SBOM, in build/; started in a chroot when root builds it.
image: $(STAMP)
	$(BIN)/python image/build.py --output build $(if $(filter 0,$(shell id -u)),--check)

# What krew installs: an archive and its manifest, in build/krew.
krew: $(STAMP)
	@$(BIN)/python krew/build.py

# The documentation: its code blocks are run, and it becomes a site in build/site; a dead link is an error. Then what
# a user sees: some 300 commands with what they must print, and the report in a Chromium, where there is one.
docs: $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.lock
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	REBALANCER_DOCS=1 $(BIN)/python -m pytest -q -p no:cacheprovider -n 2 --dist loadfile tests/docs tests/ux $(ARGS)

# The lock holds hashes of every dependency; `make lock` renews it.
lock: $(STAMP)
	$(BIN)/python -m pip install --quiet uv==0.13.9
	$(BIN)/uv pip compile --universal --generate-hashes --python-version 3.11 --no-emit-index-url \
		--extra dev --custom-compile-command "make lock" --quiet -o requirements.lock pyproject.toml
	$(BIN)/uv pip compile --universal --generate-hashes --python-version 3.11 --no-emit-index-url \
		--extra otel --custom-compile-command "make lock" --quiet -c requirements.lock \
		-o requirements-runtime.lock pyproject.toml
	$(BIN)/uv pip compile --universal --generate-hashes --python-version 3.11 --no-emit-index-url \
		--extra bench --custom-compile-command "make lock" --quiet -c requirements.lock \
		-o requirements-bench.lock pyproject.toml
	$(BIN)/uv pip compile --universal --generate-hashes --python-version 3.11 --no-emit-index-url \
		--extra docs --custom-compile-command "make lock" --quiet -c requirements.lock \
		-o requirements-docs.lock pyproject.toml
	$(BIN)/uv pip compile --universal --generate-hashes --python-version 3.11 --no-emit-index-url \
		--extra fuzz --custom-compile-command "make lock" --quiet -c requirements.lock \
		-o requirements-fuzz.lock pyproject.toml
	$(BIN)/uv pip compile --universal --generate-hashes --python-version 3.11 --no-emit-index-url \
		--no-emit-package rebalancer --extra dask --custom-compile-command "make lock" --quiet \
		-c requirements.lock -o requirements-tune.lock lab/pyproject.toml

.venv-demo/.installed: requirements-runtime.lock pyproject.toml lab/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "make: Python >= 3.11 is needed; say which with: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Setting up .venv-demo from requirements-runtime.lock (once) ..." >&2
	@$(PYTHON) -m venv .venv-demo
	@.venv-demo/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-runtime.lock
	@.venv-demo/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e . -e lab
	@touch $@

$(STAMP): requirements.lock pyproject.toml extender/pyproject.toml lab/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "make: Python >= 3.11 is needed; say which with: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Setting up $(VENV) from requirements.lock (once) ..." >&2
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e extender -e lab
	@touch $@

clean:
	rm -rf $(VENV) .venv-demo .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
