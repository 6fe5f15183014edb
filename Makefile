# Everything a contributor runs. Needs Python 3.11+; `setup` installs the rest into .venv.
# Options go in variables: make demo ARGS="--seconds 60", make test ARGS="tests/cli -x", make bench QUICK=1

BIN := .venv/bin
PACKAGES := src bronze silver gold
# Otherwise each of many processes compiles all its modules again.
unexport PYTHONDONTWRITEBYTECODE
# Tests whose subject is a process, a broker, a browser or a wheel: `make check` leaves them out.
PROCESSES := app/test_browser.py app/test_reader.py bundle cli importing kafka local operate/test_background.py test_read_only.py
# Where tests marked `cluster` are: collecting all others takes as long as some of these tests.
CLUSTER := $(addprefix tests/,bundle catalog cluster local operate/quality store)
COMPILE := $(BIN)/uv pip compile --quiet --generate-hashes --universal --python-version 3.11 --no-emit-index-url \
	--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)

.DEFAULT_GOAL := help
.PHONY: help setup hooks demo check test cluster soak lint format bench examples audit docs pictures lock clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*## ' Makefile | sed 's/:.*## /:/' | while IFS=: read -r target text; do \
		printf '  make %-10s %s\n' "$$target" "$$text"; done

setup: ## Make .venv from the lock files; quick when there is nothing to do
	@./scripts/setup.sh

hooks: setup ## Let git run the linters before each commit, and `make check` before each push
	$(BIN)/pre-commit install --hook-type pre-commit --hook-type pre-push

demo: setup ## Broker, pipeline, sample traffic and dashboard, until Ctrl-C (ARGS="--seconds 60")
	@$(BIN)/tidemark demo $(ARGS)

check: lint ## Lint, the quick tests and one exact run of the pipeline: three minutes, for daily work
	$(BIN)/pytest -n 2 --dist worksteal -m "check or not (soak or cluster or slow or browser or jvm)" \
		$(foreach place,$(PROCESSES),--ignore=tests/$(place)) $(ARGS)

test: setup ## Run the tests but those of `make cluster` and `make soak` (ARGS="tests/cli -x" for some of them)
	$(BIN)/pytest -n 3 --dist worksteal -m "not soak and not cluster" $(ARGS)

cluster: setup ## Run the tests on a Spark cluster, three brokers, a catalog and the installed wheel (ten minutes)
	$(BIN)/pytest -n 2 --dist worksteal -m cluster $(or $(ARGS),$(CLUSTER))

soak: setup ## Kill processes and play random actions for hours, compare all tables (ARGS="--scenarios 20 --seed 7"; TESTS=1: the long tests)
	@$(if $(TESTS),$(BIN)/pytest -m soak,$(BIN)/python -m tests.recovery.soak) $(ARGS)

lint: setup ## Check style, formatting, types and the direction of imports
	@status=0; for check in "ruff check ." "ruff format --check ." mypy "lint-imports --no-logo"; do \
		echo "$$check"; $(BIN)/$$check || status=1; \
	done; exit $$status

format: setup ## Format the code and apply ruff's safe fixes
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: setup ## Run the benchmarks: half an hour (QUICK=1: minutes, FULL=1: hours)
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick) $(if $(FULL),--full) $(ARGS)

examples: setup ## Run every example, kill its job in between, and recount its results (ARGS="--seed 7")
	@for example in examples/*/__main__.py; do \
		name=$$(basename "$$(dirname "$$example")"); echo "== $$name"; \
		$(BIN)/python -m "examples.$$name" --seconds 15 --check $(ARGS) || exit 1; \
	done

audit: setup ## Look up the locked packages' known vulnerabilities; needs the internet
	@./scripts/audit.sh

docs: setup ## Generate the reference pages of docs/
	$(BIN)/python -m tidemark.cli.docs docs

pictures: setup ## Take the pictures of docs/dashboard.md again, of the demo's home; needs Chromium (ARGS="--pages live")
	$(BIN)/python scripts/pictures.py .tidemark $(ARGS)

lock: setup ## Resolve the dependencies into requirements/*.txt (UPGRADE=1 for newer versions)
	$(COMPILE) requirements/uv.in -o requirements/uv.txt
	$(COMPILE) requirements/build.in -o requirements/build.txt
	$(COMPILE) --extra local pyproject.toml -o requirements/run.txt
	$(COMPILE) --extra local --group dev -c requirements/run.txt pyproject.toml -o requirements/dev.txt

clean: ## Remove caches and build output; keeps .venv and .tidemark
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis spark-warehouse \
		metastore_db derby.log
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
