# Every target sets up .venv by itself when needed; nothing is installed outside of it.
PYTHON ?= python3
BIN := .venv/bin
export OMP_NUM_THREADS ?= 1
# empty: what is imported is compiled once and kept, for the many processes that tests start
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test lint format docs gallery bench soak licences audit clean

demo: .venv/demo.done
	$(BIN)/totalcal demo

test: .venv/test.done
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

lint: .venv/test.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/test.done
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/test.done
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "now: $(BIN)/python -m http.server --directory site"

gallery: .venv/test.done
	cd docs/gallery && for script in *.py; do MPLBACKEND=agg ../../$(BIN)/python $$script || exit 1; done

# what is fast; the other scripts of the folder choose settings or judge methods, and take hours
SPEED := imports steps predictions compiled domain growth predicting reading export service monitor corruptions peers grid
bench: .venv/test.done
	@for name in $(SPEED); do echo "== benchmarks/$$name.py"; $(BIN)/python benchmarks/$$name.py || exit 1; done

soak: .venv/test.done
	$(BIN)/python -m pytest -n 2 -m exhaustive
	$(BIN)/python soak/soak.py --mutations 100000 --cases 1000

licences: .venv/test.done
	$(BIN)/python deploy/licences.py

audit: .venv/test.done
	$(BIN)/pip install --quiet pip-audit
	$(BIN)/pip-audit --requirement deploy/pinned.txt --require-hashes --disable-pip --strict

clean:
	rm -rf .venv build dist site .mypy_cache .ruff_cache .hypothesis

.venv/made:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --no-compile --upgrade pip  # older ones take twice the time for what follows
	@touch $@

.venv/demo.done: .venv/made pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable '.[report]'
	@touch $@

.venv/test.done: .venv/made pyproject.toml lab/pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable '.[test]' --editable './lab[test]'
	@touch $@ .venv/demo.done
