# `make demo` and `make test` are all that a fresh machine needs: each makes .venv first where it is missing.
#
#   make demo      five models exported and checked at several sizes, in a table
#   make test      ruff, pyright, and the whole test suite
#   make sweep     what `make test` takes a sample of, drawn afresh and ten times as much   (hours; SWEEP_SEED=n again)
#   make bench     export speed, the IR's own costs, the optimizers over one set of files, latency   (an hour)
#   make costs     passes/targets/costs.json: what fused operators cost on the installed ONNX Runtime   (minutes, on a quiet machine)
#   make models    docs/measured/models.md from the sweep of models, by both ways of capture   (ten minutes;
#                  MODELS_ARGS="--resume --jobs 16" goes on, "--capture direct" measures one way, "--page-only" writes)
#   make runtimes  docs/measured/runtimes.md: every model in OpenVINO, tract, the reference evaluator and onnxruntime-web,
#                  by irkit's files and torch.onnx's, which stay in build/torch_onnx   (an hour;
#                  RUNTIMES_ARGS="--resume --files irkit --only openvino,tract --models")
#   make architectures  docs/measured/architectures.md: every configuration class of transformers and models of other
#                  libraries, tiny   (hours; ARCHITECTURES_ARGS="--resume --jobs 8", "--failed", "--page-only", or names)
#   make runtime-kernels  passes/targets/kernels_*.json: which operators and element types runtimes take   (minutes)
#   make rules     docs/measured/rules.md from the rules
#   make proofs    docs/measured/rules_proved.md: which rules are proved for all sizes   (a minute)
#   make equations docs/measured/equations_found.md: equations that no rule gives, discovered and checked   (ten minutes)
#   make quirks    docs/measured/runtime_quirks.md from the table of ONNX Runtime's quirks
#   make check-rules  docs/measured/rules_checked.md: every rule at 200 instances and ten seeds, and the wrong rules on five
#                  (90 minutes of one processor; CHECK_ARGS="--jobs 16" for more of them, "--seconds 600" to go on later)
#   make expansions  every expansion of legalization on 200 instances   (minutes; `make test` takes 10 of each)
#   make fuzz-traced  FUZZ_PROGRAMS random programs captured in one run, against eager at other sizes and data; steps of training
#   make fuzz-optimized  ONNX Runtime's default optimizations on against off, on what irkit writes, for FUZZ_SECONDS
#   make fuzz-evaluated  the evaluator against ONNX Runtime, on the same graphs, for FUZZ_SECONDS
#   make exact-rules  rules that keep every bit, at the ends of the floats, on 200 instances each   (minutes)
#   make fuzz-control-flow  five hundred random functions with control flow on data, rewritten, each against eager
#   make fuzz-conditions  a thousand random programs that state conditions on their data, each against eager   (ten minutes)
#   make fuzz-sizes  torch's database of operators at sizes 0 and 1, each against eager   (ten minutes for 2,000 draws);
#                  functions of sizes, and sizes that a condition ties
#   make special-values  every pointwise operator at the ends of the floats, each against eager   (a minute)
#   make fuzz-io   100,000 damaged files, texts, lines and arguments at every entrance   (ten minutes)
#   make coverage  docs/measured/coverage.md from torch's database of operators, by both ways of capture   (hours;
#                  COVERAGE_ARGS="--resume --jobs 16" goes on, "--capture direct" measures one way, "--page-only" writes)
#   make both-ways  docs/measured/both_ways.md: every program of the zoo and of torch's databases by both ways of capture   (an hour;
#                  BOTH_ARGS="--resume --jobs 16 zoo")
#   make opsets    docs/measured/opsets.md from every ONNX node case at every opset   (minutes)
#   make layouts   docs/measured/layouts.md: what other libraries load of `irkit export-hf`; installs them below build/layouts
#   make docs      the pages and the reference as a site, in build/site
#   make gradients  torch's database with gradients, by torch.compile(backend="irkit"), against eager   (ten minutes)
#   make test-shuffled  the tests in a random order (SHUFFLE_SEED=... repeats one)
#   make lint | format | test-coverage | clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Where pip finds no CPU build of torch by itself, name an index that has one:
#   make test TORCH_INSTALL_ARGS="--index-url <PyTorch's index of CPU wheels>"
TORCH_INSTALL_ARGS ?=
TORCH := $(shell grep '^torch==' constraints.txt)

PYTEST_ARGS ?= -n 2 --dist worksteal
SUITE_SECONDS ?= 2100
FUZZ_SECONDS ?= 1800
TIMEOUT := $(if $(shell command -v timeout),timeout --kill-after=30 $(SUITE_SECONDS))

# One thread for each of the two test workers; property tests draw the same examples every time.
test test-shuffled test-coverage architectures coverage models runtimes runtime-kernels sweep fuzz-optimized fuzz-evaluated fuzz-conditions fuzz-control-flow exact-rules fuzz-io fuzz-traced fuzz-sizes special-values: export OMP_NUM_THREADS ?= 1
test test-shuffled test-coverage: export HYPOTHESIS_PROFILE ?= ci
# Models are built from their configuration classes: nothing is fetched from a hub.
export HF_HUB_OFFLINE := 1

.DEFAULT_GOAL := test
.PHONY: architectures layouts runtimes runtime-kernels generation demo test test-shuffled gradients sweep bench costs models rules proofs equations quirks check-rules expansions fuzz-optimized fuzz-evaluated fuzz-traced exact-rules coverage opsets test-coverage lint format types install clean kills fuzz-io docs both-ways fuzz-conditions fuzz-control-flow fuzz-sizes special-values torch-modules

install: $(READY)

# torch first and alone: asked for together with the rest, pip may prefer a newer build with gigabytes of CUDA.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(TORCH_INSTALL_ARGS) $(TORCH)
	$(BIN)/python -m pip install -e '.[transformers,dev]' -c constraints.txt
	touch $@

demo: $(READY)
	$(BIN)/python -m lowering.program.demo

test: lint types
	$(TIMEOUT) $(BIN)/python -m pytest $(PYTEST_ARGS)

# Every test module that draws: a failure is drawn again by the seed that the first line of the output names.
SWEEP_SEED ?= $(shell date +%s)
SWEEP_TIMES ?= 10
sweep: $(READY)
	IRKIT_SEED=$(SWEEP_SEED) IRKIT_TIMES=$(SWEEP_TIMES) $(BIN)/python -m pytest -n 2 --dist worksteal \
	    $$(grep -l 'from tests.support.draws import' tests/test_*.py tests/*/test_*.py)

# Saves that are killed at random moments; the suite kills a dozen.
kills: $(READY)
	$(BIN)/python -m tests.fuzz.kills 200

lint: $(READY)
	$(BIN)/lint-imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/python benchmarks/export_speed.py
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/precision.py
	$(BIN)/python -m pip install --quiet -e '.[bench]' -c constraints.txt
	$(BIN)/python benchmarks/optimizer.py
	$(BIN)/python benchmarks/latency.py

docs: $(READY)
	$(BIN)/python -m pip install --quiet -e '.[docs-site]' -c constraints.txt
	$(BIN)/python -m tests.tables.house
	$(BIN)/python -m tests.tables.reference
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

costs: $(READY)
	$(BIN)/python benchmarks/kernel_costs.py

models: $(READY)
	$(BIN)/python -m tests.tables.models $(MODELS_ARGS)

runtimes: $(READY)
	$(BIN)/python -m pip install --quiet -e '.[runtimes]' -c constraints.txt
	-test -d node_modules/onnxruntime-web || npm install --ignore-scripts --no-save onnxruntime-web
	$(BIN)/python -m tests.tables.runtimes $(RUNTIMES_ARGS)

runtime-kernels: $(READY)
	$(BIN)/python -m pip install --quiet -e '.[runtimes]' -c constraints.txt
	$(BIN)/python -m tests.tables.runtime_kernels $(or $(RUNTIMES),openvino tract onnx-reference)

architectures: $(READY)
	$(BIN)/python -m tests.tables.architectures $(ARCHITECTURES_ARGS)

transformers-exports: $(READY)
	$(BIN)/python -m tests.tables.transformers_exports

generation: $(READY)
	$(BIN)/python -m tests.tables.generation $(GENERATION_ARGS)

# optimum-onnx wants an older transformers than irkit does, and so an environment of its own, torch first as above.
build/layouts/optimum/.ready:
	$(PYTHON) -m venv build/layouts/optimum
	build/layouts/optimum/bin/python -m pip install $(TORCH_INSTALL_ARGS) $(TORCH)
	build/layouts/optimum/bin/python -m pip install 'optimum-onnx[onnxruntime]==0.1.0'
	touch $@

build/layouts/node_modules/.ready:
	npm install --ignore-scripts --no-save --prefix build/layouts @huggingface/transformers@4.3.1
	touch $@

layouts: $(READY) build/layouts/optimum/.ready build/layouts/node_modules/.ready
	$(BIN)/python -m pip install --quiet -e '.[genai]' -c constraints.txt
	$(BIN)/python -m tests.tables.layouts $(LAYOUTS_ARGS)

FUZZ_PROGRAMS ?= 2000

fuzz-traced: $(READY)
	$(BIN)/python -m tests.fuzz.traced_programs $(FUZZ_PROGRAMS)
	$(BIN)/python -m tests.fuzz.traced_programs $(FUZZ_PROGRAMS) --wide
	$(BIN)/python -m tests.fuzz.traced_programs $(FUZZ_PROGRAMS) --further
	$(BIN)/python -m tests.fuzz.training_steps $(FUZZ_PROGRAMS)

rules: $(READY)
	$(BIN)/python -m tests.tables.rules

proofs: $(READY)
	$(BIN)/python -m tests.tables.rules_proved

equations: export OMP_NUM_THREADS ?= 1
equations: $(READY)
	$(BIN)/python -m tests.tables.equations_found $(EQUATIONS_ARGS)

quirks: $(READY)
	$(BIN)/python -m tests.tables.quirks

check-rules: export OMP_NUM_THREADS ?= 1
check-rules: $(READY)
	$(BIN)/python -m tests.tables.rules_checked $(CHECK_ARGS)

expansions: $(READY)
	IRKIT_TIMES=10 IRKIT_EXPANSIONS=200 $(BIN)/python -m pytest -q -o faulthandler_timeout=3600 tests/passes/legal/test_expansions.py

fuzz-optimized: $(READY)
	$(BIN)/python -m tests.fuzz.optimized_runs --seconds $(FUZZ_SECONDS) $(FUZZ_ARGS)

fuzz-evaluated: $(READY)
	$(BIN)/python -m tests.fuzz.evaluated_runs --seconds $(FUZZ_SECONDS) $(FUZZ_ARGS)

exact-rules: $(READY)
	$(BIN)/python -m tests.fuzz.exact_rules --instances 200 $(FUZZ_ARGS)

fuzz-conditions: $(READY)
	$(BIN)/python -m tests.fuzz.conditions $(CONDITIONS_ARGS)
	$(BIN)/python -m tests.fuzz.own_examples $(FUZZ_PROGRAMS)

fuzz-control-flow: $(READY)
	$(BIN)/python -m tests.fuzz.control_programs $(or $(CONTROL_FLOW_ARGS),500)
	$(BIN)/python -m tests.fuzz.shared_memory $(or $(CONTROL_FLOW_ARGS),500)
	$(BIN)/python -m tests.fuzz.shared_memory $(firstword $(CONTROL_FLOW_ARGS) 500) moves
	$(BIN)/python -m tests.fuzz.equal_layers $(or $(CONTROL_FLOW_ARGS),500)
	$(BIN)/python -m tests.fuzz.taken_elements $(firstword $(CONTROL_FLOW_ARGS) 500)
	$(BIN)/python -m tests.fuzz.taken_elements $(firstword $(CONTROL_FLOW_ARGS) 500) --wide

fuzz-sizes: $(READY)
	$(BIN)/python -m tests.fuzz.small_sizes $(SIZES_ARGS)
	$(BIN)/python -m tests.fuzz.small_sizes 2000 --seed 5000000
	$(BIN)/python -m tests.fuzz.functions_of_sizes 2000
	$(BIN)/python -m tests.fuzz.numbers_beside_integers 1000
	$(BIN)/python -m tests.fuzz.numbers_of_sizes 1000
	$(BIN)/python -m tests.fuzz.tied_sizes 2000
	$(BIN)/python -m tests.fuzz.copied_views 1000
	$(BIN)/python -m tests.fuzz.places_of_writes 1000
	$(BIN)/python -m tests.fuzz.layouts_of_results 1000
	$(BIN)/python -m tests.fuzz.asked_layouts 1000
	$(BIN)/python -m tests.fuzz.written_views 1000

special-values: $(READY)
	$(BIN)/python -m tests.fuzz.special_values $(VALUES_ARGS)

fuzz-io: $(READY)
	$(BIN)/python -m tests.fuzz.entrances $(FUZZ_ARGS)

coverage: $(READY)
	$(BIN)/python -m tests.tables.coverage $(COVERAGE_ARGS)

both-ways: export OMP_NUM_THREADS ?= 1
both-ways: $(READY)
	$(BIN)/python -m tests.fuzz.both_ways $(BOTH_ARGS)

torch-modules: $(READY)
	$(BIN)/python -m tests.tables.torch_modules

opsets: $(READY)
	$(BIN)/python -m tests.tables.opsets --page docs/measured/opsets.md

gradients: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.tables.gradients $(GRADIENTS_ARGS)

SHUFFLE_SEED ?= $(shell date +%s)
test-shuffled: $(READY)
	$(BIN)/python -m pytest $(PYTEST_ARGS) --random-order-bucket=global --random-order-seed=$(SHUFFLE_SEED)

test-coverage: $(READY)
	$(BIN)/python -m pytest $(PYTEST_ARGS) --cov --cov-report=term --cov-report=html:build/coverage

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .coverage .coverage.* docs/_build
	find irkit passes lowering tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
