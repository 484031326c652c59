# `make demo` draws pictures, `make test` runs the tests; both install what is missing first (Debian).
MAKEFLAGS += --no-print-directory
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
PACKAGES = build-essential cmake pkg-config libdnnl-dev libjansson-dev libpcre2-dev libutf8proc-dev libspng-dev \
           libcmocka-dev libopenmpi-dev openmpi-bin
TEST_PACKAGES = clang-format universal-ctags
LINT_PACKAGES = clang-tidy
VALGRIND = valgrind

TESSERA = build/release/tessera
DEMO_MODEL = demo/emoji-klein
DEMO = --prompt-file demo/prompts.txt --seed 42 --grid demo/out/sheet.png -o demo/out/picture.png
MPIRUN = mpirun --oversubscribe $(if $(filter 0,$(shell id -u)),--allow-run-as-root)
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

# Six pictures on two ranks.
demo: build
	@mkdir -p demo/out
	$(TESSERA) generate $(DEMO_MODEL) --tp 2 $(DEMO)
	@echo
	@cat -n demo/prompts.txt
	@echo
	@echo "The sheet is demo/out/sheet.png: these six prompts, drawn by two ranks (threads) of which each held half of the weights."
	@echo "A prompt of your own (demo/emoji-klein/README.md says what the model knows), and the same sheet by two processes:"
	@echo '    $(TESSERA) generate $(DEMO_MODEL) "a big panda in a meadow" --tp 2 -o panda.png'
	@echo '    $(MPIRUN) -n 2 $(TESSERA) generate $(DEMO_MODEL) --tp 2 $(DEMO)'

test: build
	ctest --preset release -LE slow -j 2

# The slow tests, a small picture under valgrind, the others once more under AddressSanitizer and UBSan, and ranks as
# threads under ThreadSanitizer.
test-all: build
	ctest --preset release -L slow --no-tests=ignore
	valgrind --quiet --error-exitcode=1 --leak-check=full $(TESSERA) generate tests/fixtures/klein "a cat" --device ref \
	    --height 16 --width 32 --steps 1 --max-sequence-length 16 --seed 1 --no-progress -o build/valgrind.png
	cmake --preset asan
	cmake --build --preset asan -j $(JOBS)
	ctest --preset asan -LE 'lint|slow' -j 2
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
