# The two commands of the README, and those of the people who build koofu. Everything real is in
# CMakeLists.txt; this file installs what is missing and names the things one does. `make help` prints the
# lines that begin with two number signs.

BUILD   ?= build
PREFIX  ?= /usr/local
CMAKE   ?= cmake
JOBS    ?= $(shell nproc 2>/dev/null || echo 2)
SUITE   ?= .
WERROR  ?= OFF

.PHONY: all demo cuda tested test test-real test-cuda bench-cuda python-api test-python test-export test-parquet test-mpi test-serve test-browser wheel oracle install uninstall help bench lint lint-quick format \
        sanitize valgrind fuzz torture clean
## Builds build/koofu and the library; installs missing build packages.
all:
	@tools/packages.sh build
	@$(CMAKE) -S . -B $(BUILD) -G Ninja -DKOOFU_TESTS=OFF > /dev/null
	@$(CMAKE) --build $(BUILD) -j $(JOBS)

## Builds, then compares raw and Koo-Fu accuracy on synthetic data.
demo: all
	@$(BUILD)/koofu demo

## Builds the plug-in for NVIDIA GPUs.
# It lies next to the program, which then finds it. Needs nvcc, but no GPU.
cuda:
	@tools/packages.sh build
	@tools/nvcc.sh > /dev/null
	@$(CMAKE) -S . -B $(BUILD) -G Ninja -DKOOFU_CUDA=ON > /dev/null
	@$(CMAKE) --build $(BUILD) -j $(JOBS)

## Builds and runs the tests; SUITE=regex selects some.
# Without the long ones of test-real, unless SUITE names them. The build folder is that of `make`, with the tests
# added. WERROR=ON: warnings are errors.
test: tested
	@ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) $(if $(filter .,$(SUITE)),-LE real,-R '$(SUITE)'); \
	status=$$?; tools/skipped.py $(BUILD); exit $$status

## Runs long comparisons on real embeddings, and all tables of experiments/.
# The embeddings and labels are in the folder of CMake's KOOFU_DATA. SUITE=regex selects some.
test-real: tested
	@ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) -L real -R '$(SUITE)'; \
	status=$$?; tools/skipped.py $(BUILD); exit $$status

tested:
	@tools/packages.sh build test
	@$(CMAKE) -S . -B $(BUILD) -G Ninja -DKOOFU_TESTS=ON -DKOOFU_WERROR=$(WERROR) > /dev/null
	@$(CMAKE) --build $(BUILD) -j $(JOBS)

## Runs the tests of devices on a GPU.
# With the plug-in for NVIDIA GPUs in the place of its plain twin, on a machine with a GPU,
# which needs a compiler, CMake, Ninja and nvcc, nothing more; what they print also goes to $(BUILD)/test-cuda.log.
# ARGS: suites, such as device_search. After a failure bench-cuda does not run.
test-cuda:
	@tools/build_cuda.sh $(BUILD)
	@tools/test_cuda.sh $(BUILD) $(ARGS)

## Tests the Python package with the newest libraries.
# The Python package with the newest numpy, scikit-learn, PyTorch, polars, Dask, Ray, Spark and mypy, in a
# virtual environment of some gigabytes in build-python. PYTHON: which Python; ARGS: options of pytest, such as -k dask.
test-python: all
	@tools/packages.sh build python
	@tools/test_python.sh $(BUILD) $(ARGS)

## Writes the reference of the Python package.
# From its docstrings: $(BUILD)/python-api.md.
python-api:
	@mkdir -p $(BUILD)
	@tools/python_api.py > $(BUILD)/python-api.md
	@echo "koofu: wrote $(BUILD)/python-api.md"

## Tests what koofu export writes with the programs it is for.
# What `koofu export` writes, read by the programs it is for: onnx, onnxruntime, FAISS (the newest and 1.7.4),
# numpy and gcc, in virtual environments in build-export.
test-export: all
	@tools/packages.sh build python
	@tools/test_export.sh $(BUILD)

## Tests the pages in Chromium.
# The report and the page of koofu serve in Chromium, with axe-core's checks. ARGS: parts of names of tests.
test-browser:
	@tools/packages.sh build test browser
	@tools/test_browser.sh $(BUILD) $(ARGS)

## Tests .parquet files against other programs.
# .parquet files of pyarrow, polars, duckdb and pandas, and ours read by them, in a virtual environment in
# build-parquet. ARGS: --speed, or --speed 10 for ten million rows: how fast their files are read, with floors.
test-parquet: all
	@tools/packages.sh build python
	@tools/test_parquet.sh $(BUILD) $(ARGS)

## Tests koofu-mpi with Open MPI and MPICH.
# koofu-mpi with Open MPI and, in build-mpich, with MPICH: the same bytes on any number of ranks, one error
# whoever fails, killed ranks, hosts that are cut off. ARGS: --short, or parts of names of tests.
test-mpi:
	@tools/packages.sh build test mpi
	@tools/test_mpi.sh $(BUILD) $(ARGS)

## Tests the server in full: kills, hostile clients, load.
# The server in full: kills, hostile clients, openai, tritonclient, prometheus_client and schemathesis in a virtual
# environment in build-serve, and a minute of load. ARGS: seconds of load.
test-serve:
	@tools/packages.sh build test python
	@$(CMAKE) -S . -B $(BUILD) -G Ninja -DKOOFU_TESTS=ON > /dev/null
	@$(CMAKE) --build $(BUILD) -j $(JOBS) --target koofu serve_load
	@tools/test_serve.sh $(BUILD) $(ARGS)

## Builds the source archive and a wheel.
# The wheel runs on other machines, and is tested in a bare environment.
wheel:
	@tools/packages.sh build python
	@tools/wheel.sh

## Compares the encoder with the reference.
# ORACLE_PYTHON: a Python that has it; ARGS: names of comparisons, such
# as towers.
oracle:
	@tools/packages.sh build test
	@$(CMAKE) -S . -B $(BUILD) -G Ninja -DKOOFU_TESTS=ON > /dev/null
	@$(CMAKE) --build $(BUILD) -j $(JOBS)
	@tools/oracle.sh $(BUILD) $(ARGS)

## Installs below PREFIX (default: /usr/local).
# DESTDIR=folder puts everything below that folder, for making packages.
install: all
	@DESTDIR='$(DESTDIR)' $(CMAKE) --install $(BUILD) --prefix '$(PREFIX)'

## Removes what `make install` put below PREFIX.
uninstall:
	@DESTDIR='$(DESTDIR)' tools/uninstall.sh $(BUILD) '$(PREFIX)' $(CMAKE)

## Prints these lines.
help:
	@awk '/^## / { text = substr($$0, 4) } /^[a-z-]+:/ { if (text) printf "make %-14s%s\n", substr($$1, 1, index($$1, ":") - 1), text; text = "" }' Makefile

## Measures speed beside peers; fails where a floor is missed.
# One table of speed, each figure beside a peer or a ceiling; fails where a floor is missed. ARGS: options
# of bench/bench.py, such as --only search, --repeat 3 or --quick.
bench:
	@tools/packages.sh build bench
	@tools/packages.sh peers || echo "koofu: Debian's FAISS is left out"
	@$(CMAKE) -S . -B $(BUILD) -G Ninja -DKOOFU_BENCH=ON > /dev/null
	@$(CMAKE) --build $(BUILD) -j $(JOBS)
	@bench/run.sh $(BUILD) $(ARGS)

## Measures speed on a GPU.
# The paper's table on a GPU, and all other cases; fails where a list differs from the CPU's or a limit is missed.
# What it prints also goes to $(BUILD)/bench-cuda.log. ARGS: quick, for less; DATA: files of rows that are searched
# as well, ROWS,QUERIES.
bench-cuda:
	@tools/build_cuda.sh $(BUILD)
	@bench/cuda/run.sh $(BUILD) $(ARGS) $(DATA)

## Checks style and runs all static checkers.
lint:
	@tools/packages.sh build test lint
	@tools/lint.sh

## Runs the quick part of lint, in a minute.
lint-quick:
	@tools/packages.sh quick
	@tools/lint.sh quick

## Formats all C files.
format:
	@tools/packages.sh lint
	@clang-format -i $$(git ls-files '*.c' '*.h')

## Runs the tests under ASan, UBSan and TSan.
sanitize:
	@tools/packages.sh build test
	@tools/sanitize.sh

## Runs the command-line sessions under valgrind.
# ARGS: some of the files of tests/cli/.
valgrind:
	@tools/packages.sh build test valgrind
	@tools/valgrind.sh $(ARGS)

## Tests faults, kills, several writers and limits, for an hour.
# Faults, mutated files, kills, several writers, limits and changing galleries, until all is done: about an hour on two
# cores. ARGS: options of tests/torture/torture.py, such as --seconds 600, --parts kills or --seed 2.
torture:
	@tools/packages.sh build test
	@$(CMAKE) -S . -B $(BUILD) -G Ninja -DKOOFU_TESTS=ON > /dev/null
	@$(CMAKE) --build $(BUILD) -j $(JOBS) --target koofu torture_faults
	@python3 tests/torture/torture.py $(BUILD)/koofu --shim $(BUILD)/tests/torture_faults.so --jobs $(JOBS) $(ARGS)

## Runs every fuzz target for a while.
# SECONDS_EACH: how long each fuzz target runs; ARGS: options of tools/fuzz.sh, such as --executions 30000000.
fuzz:
	@tools/packages.sh build fuzz
	@tools/fuzz.sh $(ARGS)

## Removes the build folders.
clean:
	@rm -rf build build-*
