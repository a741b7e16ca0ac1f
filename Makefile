# The two commands of the README, and those of the people who build koofu. Everything real is in
# CMakeLists.txt; this file installs what is missing and names the things one does.

BUILD   ?= build
PREFIX  ?= /usr/local
CMAKE   ?= cmake
JOBS    ?= $(shell nproc 2>/dev/null || echo 2)
SUITE   ?= .

.PHONY: all demo test oracle install bench bench-search bench-choosing lint format sanitize fuzz clean
all:
	@tools/packages.sh build
	@$(CMAKE) -S . -B $(BUILD) -G Ninja -DKOOFU_TESTS=OFF > /dev/null
	@$(CMAKE) --build $(BUILD) -j $(JOBS)

demo: all
	@$(BUILD)/koofu demo

# Every test. The build folder is that of `make`, with the tests added.
test:
	@tools/packages.sh build test
	@$(CMAKE) -S . -B $(BUILD) -G Ninja -DKOOFU_TESTS=ON > /dev/null
	@$(CMAKE) --build $(BUILD) -j $(JOBS)
	@cd $(BUILD) && ctest --output-on-failure -j $(JOBS) -R '$(SUITE)'

# The encoder beside the reference. ORACLE_PYTHON: a Python that has it; ARGS: names of comparisons, such
# as towers.
oracle:
	@tools/packages.sh build test
	@$(CMAKE) -S . -B $(BUILD) -G Ninja -DKOOFU_TESTS=ON > /dev/null
	@$(CMAKE) --build $(BUILD) -j $(JOBS)
	@tools/oracle.sh $(BUILD) $(ARGS)

# DESTDIR=folder puts everything below that folder, for making packages.
install: all
	@DESTDIR='$(DESTDIR)' $(CMAKE) --install $(BUILD) --prefix '$(PREFIX)'

bench: all
	@tools/packages.sh bench
	@tools/packages.sh peers || echo "koofu: Debian's FAISS is left out"
	@bench/run.sh $(BUILD)

# ARGS: options of bench/search.py, such as --latency.
bench-search: all
	@tools/packages.sh bench
	@tools/packages.sh peers || echo "koofu: Debian's FAISS is left out"
	@bench/run.sh $(BUILD) search $(ARGS)

# ARGS: options of bench/choosing.py, such as --rows.
bench-choosing: all
	@python3 bench/choosing.py $(BUILD)/koofu $(ARGS)

lint:
	@tools/packages.sh build test lint
	@tools/lint.sh

format:
	@tools/packages.sh lint
	@clang-format -i $$(git ls-files '*.c' '*.h')

sanitize:
	@tools/packages.sh build test
	@tools/sanitize.sh

# SECONDS_EACH: how long each fuzz target runs.
fuzz:
	@tools/packages.sh build fuzz
	@tools/fuzz.sh

clean:
	@rm -rf build build-*
