# `make demo` draws a picture, `make test` runs the tests; both install what is missing first (Debian).
MAKEFLAGS += --no-print-directory
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
PACKAGES = build-essential cmake pkg-config libdnnl-dev libjansson-dev libpcre2-dev libutf8proc-dev libspng-dev \
           libcmocka-dev libopenmpi-dev openmpi-bin
TEST_PACKAGES = clang-format universal-ctags
LINT_PACKAGES = clang-tidy
VALGRIND = valgrind

TESSERA = build/release/tessera
DEMO_MODEL = tests/fixtures/klein
DEMO_PROMPT = A cat holding a sign that says hello world
BENCH = --config bench/klein-4b.json --random-weights --tokens 1024 --text-tokens 512 \
        --num-layers 1 --num-single-layers 4 --dtype float32

.PHONY: build deps demo test test-all lint format bench install clean
build: deps
	cmake --preset release
	cmake --build --preset release -j $(JOBS)

# Installs the packages that are missing; with none missing it neither asks for root nor touches the network.
WANTED = $(PACKAGES)
test test-all lint: WANTED += $(TEST_PACKAGES)
test-all: WANTED += $(VALGRIND)
lint: WANTED += $(LINT_PACKAGES)
deps:
	@sh cmake/install_packages.sh $(WANTED)

demo: build
	@mkdir -p demo/out
	$(TESSERA) generate $(DEMO_MODEL) "$(DEMO_PROMPT)" --height 256 --width 256 --seed 42 -o demo/out/demo.png
	@echo
	@echo "The picture is demo/out/demo.png. It shows noise: $(DEMO_MODEL) is a tiny model with random weights."
	@echo "With a trained FLUX.2 [klein] folder, and a prompt of your own:"
	@echo '    $(TESSERA) generate FOLDER "a red fox beside a frozen lake" -o fox.png'

test: build
	ctest --preset release -LE slow -j 2

# The slow tests, a small picture under valgrind, everything once more under AddressSanitizer and UBSan, and ranks as
# threads under ThreadSanitizer.
test-all: build
	ctest --preset release -L slow --no-tests=ignore
	valgrind --quiet --error-exitcode=1 --leak-check=full $(TESSERA) generate $(DEMO_MODEL) "a cat" --device ref \
	    --height 16 --width 32 --steps 1 --max-sequence-length 16 --seed 1 --no-progress -o build/valgrind.png
	cmake --preset asan
	cmake --build --preset asan -j $(JOBS)
	ctest --preset asan -LE lint -j 2
	cmake --preset tsan
	cmake --build --preset tsan -j $(JOBS)
	ctest --preset tsan

lint: build
	find src cli examples -name '*.c' | xargs -n 4 -P $(JOBS) clang-tidy --quiet -p build/release
	ctest --preset release -L lint

format:
	find src cli include tests examples -name '*.[ch]' -exec clang-format -i {} +

# Dimensions of FLUX.2 [klein] 4B with fewer blocks, so that it fits a small machine.
bench: build
	$(TESSERA) bench step $(BENCH)

install: build
	cmake --install build/release --prefix $(PREFIX)

clean:
	rm -rf build demo/out
