# `make run` shows mnemod at work, on NOTES=folder or on the project's own documents; `make test` proves it.
# Both set up .venv by themselves, and need python3 (3.11 or newer) with pip, make, and for `make test` a C compiler.

PYTHON ?= python3
PY := .venv/bin/python
NOTES ?=
EMBEDDING_MODEL := all-MiniLM-L6-v2
LANGUAGE_MODEL := SmolLM2-135M-Instruct-Q4_1
# Processes that run tests; mypy is one of the tests (tests/test_types.py).
JOBS ?= 2
BENCH ?=
DATA ?=
DOCS ?=
PEERS := chromadb==1.5.9 mem0ai==2.2.1 onnxruntime tokenizers numpy

# llama.cpp, for whatever CPU reads the wheel later (pip keeps it), and without its picture models.
export CMAKE_ARGS ?= -DGGML_NATIVE=OFF -DLLAVA_BUILD=OFF

.PHONY: run test check bench bench-notes bench-crash bench-faults bench-durability bench-growth bench-cli bench-quality bench-documents bench-projects bench-beliefs bench-fixtures bench-peers bench-recall bench-start bench-memory linear-time simulate format models environment-core environment-dev clean bench-scores
.DEFAULT_GOAL := run

run: environment-core
	@mkdir -p .run
	@# The model is fetched beside the demonstration: until it is there, answers come by words.
	@$(PY) -m mnemo_daemon.offline pull $(EMBEDDING_MODEL) >.run/pull.log 2>&1 </dev/null & echo $$! >.run/pull.pid; \
	$(PY) packaging/demonstration.py "$(NOTES)"

test: environment-dev models
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m pytest -n $(JOBS) --dist loadfile

# The quick one, for while you work: a minute at most.
check: environment-dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m pytest -q tests/spec tests/properties tests/test_tidy.py tests/test_imports.py

# Measurements, each printed with what it is compared with. DATA=folder holds the retrieval benchmark.
bench: environment-dev models
	$(PY) -m tests.bench.bench_socket $(BENCH)

bench-notes: environment-dev models
	$(PY) -m tests.bench.bench_notes $(BENCH)

bench-crash: environment-dev
	$(PY) -m tests.bench.bench_crash $(BENCH)

# Losses of power, refused system calls, a full disk. As root, with strace, mount and a C compiler (Debian: strace,
# mount, gcc, libc6-dev). What it could not run it names, and fails.
bench-faults: environment-dev
	$(PY) -m tests.bench.bench_faults $(BENCH)

bench-durability: environment-dev
	$(PY) -m tests.bench.bench_durability $(BENCH)

bench-growth: environment-dev
	$(PY) -m tests.bench.bench_growth $(BENCH)

bench-start: environment-dev
	$(PY) -m tests.bench.bench_start $(BENCH)

bench-memory: environment-dev
	$(PY) -m tests.bench.bench_memory $(BENCH)

bench-cli: environment-dev models
	$(PY) tests/bench/bench_cli.py $(BENCH)

# Without DATA, of those of the project's own conversations on which nothing was fitted.
bench-quality: environment-dev models
	$(PY) -m tests.bench.quality $(DATA) $(BENCH)

# DOCS=folder: the sources of some documentation that no one here wrote, of Python's for one.
bench-documents: environment-dev models
	$(PY) -m tests.bench.bench_documents $(DOCS) $(BENCH)

# The same documentation in `default`, and facts of projects in namespaces of their own.
bench-projects: environment-dev models
	$(PY) -m tests.bench.bench_projects $(DOCS) $(BENCH)

# How often a memory answers that has such a score.
bench-scores: environment-dev models
	$(PY) -m tests.bench.bench_scores $(BENCH)

bench-beliefs: environment-dev models
	$(PY) -m tests.bench.bench_beliefs $(BENCH)

bench-fixtures: environment-dev models
	$(PY) -m tests.bench.bench_fixtures $(BENCH)

bench-recall: environment-dev models
	$(PY) -m tests.bench.bench_recall $(BENCH)

# What every pattern and text function costs on every nasty text; the suite takes a part of them.
linear-time: environment-dev
	MNEMO_SWEEP=1 $(PY) -m pytest -q tests/properties/test_linear_time.py

# Beside other memories, which live in an environment of their own.
bench-peers: environment-dev models .venv-peers/installed
	$(PY) -m tests.bench.bench_peers $(DATA) --python .venv-peers/bin/python $(BENCH)

.venv-peers/installed: Makefile
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check $(PEERS)
	@echo '*' >.venv-peers/.gitignore
	@touch $@

# Lives of the daemon in which everything fails that can, each as its seed says; then one day on a disk that fails at
# each of its calls. `SEED=17 STEPS=23 make simulate` lives one again.
SEEDS ?= 10000
simulate: environment-dev
	$(PY) -m tests.bench.bench_simulation --seeds $(SEEDS) $(BENCH)
	$(if $(SEED),,$(PY) -m tests.bench.bench_simulation --days)

format: environment-dev
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

models: environment-dev
	@$(PY) -m mnemo_daemon.offline pull $(EMBEDDING_MODEL)
	@$(PY) -m mnemo_daemon.offline pull $(LANGUAGE_MODEL)

environment-core:
	@$(PYTHON) packaging/environment.py core

environment-dev:
	@$(PYTHON) packaging/environment.py dev

clean:
	rm -rf .venv .venv-peers .run dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
