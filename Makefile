# SPDX-License-Identifier: Apache-2.0
# One file builds everything.
#
#   make          install missing packages, build, show a first forecast, then build the CUDA library
#   make build    build only              make check    run the tests (ONLY=word selects)
#   make web      the page                make lint     layers, format, banned calls, lengths
#   make fuzz     fuzz the parsers        make bench    speed against limits and other tools
#   make install  to PREFIX and DESTDIR   make uninstall
#   make deb      a Debian package        tools/try-deb installs it into a bare Debian
#   make manuals  man pages and completions, under build/share
#   make docs     docs/json.md and docs/reference.md, from the tables
#   make cuda-parity     compare GPU operations with the CPU's, and time them
#   make check-oracles   compare with npm's and Debian's implementations
#   make check-page      the page and a report in a headless Chromium
#   make check-host      files, processes and threads (test/host), for SAN=thread
#
#   make fuzz-again      replay the fuzzers' inputs, as CI does (also fuzz-keep, fuzz-large: see below)
#   make check-random    COUNT random requests from SEED keep what must hold between plans
#   make check-torture   every command, each call of malloc, read, write, fork … failing once
#   make check-kills     COUNT kills of train, its ranks, watch, pilot, profile, its units and writers of the ledger
#
#   SAN=1         sanitizers, in a separate build folder; SAN=thread: of data races
#   CUDA=0        without CUDA            INSTALL=0     never call apt-get or npm
#   ARCHS=90      GPUs to compile for     (compute capability 9.0; fewer compile faster; PTX=0: for no newer ones)
#   CUDAFLAGS=-O1 instead of -O3          CFLAGS="-O2 -g"   instead of -O3 -g
#   OPENBLAS=0    products in plain C     MPI=0         one process
#   WEB=0         reports without what-if WERROR=1      warnings are errors
#   V=1           show the commands

# Does this run only show or ask what would be done (make -n, make -q)? make remakes found.mk even then.
DRY_RUN := $(strip $(foreach letter,n q,$(findstring $(letter),$(filter-out --%,$(firstword -$(MAKEFLAGS))))))
MAKEFLAGS += -r -j$(shell nproc)
Q := $(if $(V),,@)
, := ,

VARIANT := $(if $(SAN),$(if $(filter thread,$(SAN)),tsan,san),fast)$(if $(filter clang,$(CC)),-clang)
BUILD := build/$(VARIANT)
PROGRAM := $(if $(filter fast,$(VARIANT)),build/gpuhours,$(BUILD)/gpuhours)
CC := $(if $(filter default,$(origin CC)),gcc,$(CC))
CFLAGS ?= -O3 -g
LANGUAGE := -std=c17 -ffp-contract=off -D_POSIX_C_SOURCE=200809L -Isrc -I. -MMD -MP
WARNINGS := -Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes \
            $(if $(WERROR),-Werror)
# Without the checks of pointers that the address sanitizer makes too: they took a quarter of the time.
SANITIZE_1 := -O1 -fno-omit-frame-pointer -fsanitize=address$(,)undefined$(,)float-cast-overflow \
              -fno-sanitize=null$(,)object-size$(,)pointer-overflow \
              -fno-sanitize-recover=undefined$(,)float-cast-overflow
SANITIZE_thread := -O1 -fno-omit-frame-pointer -fsanitize=thread
SANITIZE := $(SANITIZE_$(SAN))
ifeq ($(SAN),thread) # it does not see how OpenMP and OpenBLAS wait for their threads
OPENBLAS := 0
endif
COMPILE  := $(CC) $(LANGUAGE) $(WARNINGS) $(CFLAGS) $(SANITIZE)
FOR_TESTS := -O1 # tests compute little themselves, and compile in two thirds of the time
LDLIBS   := -lz -lzstd -lbz2 -llzma -lsqlite3 -lyaml -lm -lpthread -ldl
PACKAGES := gcc libc6-dev zlib1g-dev libzstd-dev libbz2-dev liblzma-dev libsqlite3-dev libyaml-dev pkg-config libopenblas-dev

# --- what this machine has ---------------------------------------------------

# Detected after the packages are installed, and again when Debian packages change or another nvcc is found
# (found.mk, below); make then restarts with the result.
NVCC_HERE := $(shell PATH=$$PATH:/usr/local/cuda/bin command -v nvcc)
ifneq ($(filter-out clean uninstall,$(or $(MAKECMDGOALS),all)),)
-include $(BUILD)/found.mk
endif
OPENMP := $(if $(filter thread,$(SAN)),,$(FOUND_OPENMP))
BLAS := $(if $(filter 0,$(OPENBLAS)),,$(FOUND_BLAS))
LIVE := $(if $(filter 0,$(WEB)),,$(if $(FOUND_WASM),web/live.css web/live.js web/what_if.html build/web/core.b64))
MPI_LIBS := $(if $(SAN)$(filter 0,$(MPI)),,$(FOUND_MPI))
COMPILE += $(if $(OPENMP),$(OPENMP),-Wno-unknown-pragmas) \
           $(if $(BLAS),$(FOUND_BLAS_FLAGS)) $(if $(MPI_LIBS),$(FOUND_MPI_FLAGS))
# The CUDA library calls the program's fail().
# Below the address sanitizer at a fixed place: what it keeps of each variable needs no relocation, and tests start thousands of programs.
LINK := $(CC) $(SANITIZE) $(if $(filter san%,$(VARIANT)),-no-pie) $(OPENMP) $(LDFLAGS) -Wl,--export-dynamic-symbol=fail
NVCC := $(if $(SAN)$(filter 0,$(CUDA)),,$(FOUND_CUDA))

# --- sources: a folder is a layer, an option is a file -----------------------

BASE  := $(wildcard src/base/*.c)
CORE  := $(wildcard src/core/*/*.c)
HOST  := $(wildcard src/remote/*.c src/host/*.c src/host/tables/*.c)
ALL_TRAIN := $(wildcard src/train/*.c src/train/files/*.c src/train/cpu/*.c src/train/group/*.c)
TRAIN := $(filter-out $(if $(BLAS),%/product_plain.c,%/product_blas.c) \
           $(if $(MPI_LIBS),%/group_no_mpi.c,%/group_mpi.c),$(ALL_TRAIN))
CLI   := $(wildcard src/cli/*.c src/cli/terminal/*.c src/cli/wrapped/*.c src/cli/dataset/*.c src/cli/engine/*.c)
TESTS := $(wildcard test/*.c test/base/*.c test/core/*/*.c test/remote/*.c test/host/*.c test/train/*.c test/cli/*.c test/web/*.c)

object = $(patsubst %,$(BUILD)/obj/%.o,$1)
LIBRARY := $(call object,$(BASE) $(CORE) $(HOST) $(TRAIN)) $(BUILD)/data.o
COMMANDS := $(call object,$(filter-out %/main.c,$(CLI))) $(BUILD)/version.o # for what reads their tables

# --- targets -----------------------------------------------------------------

.PHONY: all forecast build check check-host check-oracles check-page check-random check-torture check-kills lint web fuzz fuzz-again fuzz-keep fuzz-large bench benches cuda-parity install uninstall deb manuals docs clean FORCE
.DELETE_ON_ERROR: # a command that fails after `> $@` leaves no half file
# What a laptop needs comes first: nvcc takes longer than everything else together, so plain `make`
# shows a forecast before it starts.
all: forecast $(if $(NVCC),build/libgpuhours-cuda.so)
forecast: $(PROGRAM)
	$(Q)$(PROGRAM)
	@[ -z "$(NVCC)" ] || [ -e build/libgpuhours-cuda.so ] || printf '\n%s\n%s\n' \
	 "build/gpuhours is ready. Next comes the CUDA library, for training and pilots on a GPU; it takes" \
	 "minutes (compute capabilities $(SORTED_ARCHS)). Ctrl-C stops here; make CUDA=0 leaves it out."
build: $(PROGRAM) $(if $(NVCC),build/libgpuhours-cuda.so)
STAND_INS := $(BUILD)/stand_in/trainer $(BUILD)/stand_in/nvml.so $(BUILD)/stand_in/no_curl.so
FAULTS := $(if $(SAN),,$(BUILD)/faults/torture $(BUILD)/faults/inject.so)
# Tests run beside each other: a thread that has nothing to do leaves its core to the others.
TEST_VARIABLES := OMP_WAIT_POLICY=passive \
    TSAN_OPTIONS="die_after_fork=0 suppressions=$(CURDIR)/test/faults/races_that_are_meant" \
    GPUHOURS=$(PROGRAM) MANUAL=$(BUILD)/manual STAND_INS=$(BUILD)/stand_in FAULTS=$(if $(FAULTS),$(BUILD)/faults)
check: $(PROGRAM) $(BUILD)/tests $(BUILD)/manual $(STAND_INS) $(FAULTS) \
       $(if $(SAN)$(if $(FOUND_WASM),,$(filter 0,$(INSTALL))),,build/gpuhours.html)
	$(Q)$(TEST_VARIABLES) $(BUILD)/tests $(ONLY)
# Of the layer below the commands only: for SAN=thread, at a third of what check compiles.
check-host: $(BUILD)/host/tests $(STAND_INS)
	$(Q)$(TEST_VARIABLES) $(BUILD)/host/tests $(or $(ONLY),test/host)
check-page: $(PROGRAM) $(BUILD)/tests build/gpuhours.html build/page/node_modules build/deps-page
	$(Q)$(TEST_VARIABLES) $(BUILD)/tests test/web/browser
check-random: $(BUILD)/few/tests
	$(Q)RANDOM_COUNT=$(or $(COUNT),20000) RANDOM_SEED=$(or $(SEED),$(shell date +%s)) $< plans_of_random_requests
# At most 2,000 calls of a kind, with SAN=1 below the sanitizers; MOST=40 is a look of a few minutes. JOBS of them at once.
check-torture: $(PROGRAM) $(BUILD)/faults/torture $(BUILD)/faults/inject.so $(STAND_INS)
	$(Q)$(BUILD)/faults/torture $(PROGRAM) $(BUILD)/faults/inject.so $(BUILD)/stand_in/trainer $(or $(MOST),2000) $(or $(JOBS),$(shell nproc)) $(ONLY)
check-kills: $(PROGRAM) $(STAND_INS)
	$(Q)for what in train ranks resized watch pilot profile units ledger; do case $$what in *$(ONLY)*) GPUHOURS=$(PROGRAM) STAND_INS=$(BUILD)/stand_in \
	    sh test/faults/kills $$what $(or $(COUNT),200) $(or $(SEED),$(shell date +%s)) || exit 1;; esac; done
check-oracles: $(PROGRAM) $(BUILD)/encode build/deps-oracles
	$(Q)INSTALL=$(INSTALL) tools/oracles
	$(Q)node test/oracles/tokenizers.mjs $(BUILD)/encode
	$(Q)node test/oracles/images.mjs
	$(Q)INSTALL=$(INSTALL) sh test/oracles/templates.sh
lint: build $(BUILD)/manual
	$(Q)tools/lint $(BUILD)
manuals: build/share/man/man1/gpuhours.1
docs: $(BUILD)/manual
	$(Q)for name in json reference; do \
	    $(BUILD)/manual $$name > $(BUILD)/$$name.md && mv $(BUILD)/$$name.md docs/$$name.md || exit 1; done
build/share/man/man1/gpuhours.1: $(BUILD)/manual build/date
	@echo "  man  build/share"; rm -rf build/share/man/man1 build/share/*/*completion* build/share/zsh
	$(Q)$(BUILD)/manual share build/share $$(cat build/date) && touch $@
web: build/gpuhours.html
clean:
	$(Q)rm -rf build

$(PROGRAM): $(LIBRARY) $(COMMANDS) $(call object,src/cli/main.c)
$(BUILD)/tests: $(LIBRARY) $(COMMANDS) $(call object,$(TESTS))
$(BUILD)/host/tests: $(call object,$(BASE) $(CORE) $(HOST) test/main.c test/files.c $(wildcard test/host/*.c)) $(BUILD)/data.o
$(BUILD)/manual: $(LIBRARY) $(COMMANDS) $(call object,$(wildcard tools/manual/*.c))
$(BUILD)/encode: $(LIBRARY) $(call object,test/oracles/encode.c)
$(BUILD)/vocabulary: $(LIBRARY) $(call object,tools/vocabulary.c) # for tools/vocabulary.sh
$(BUILD)/page: $(LIBRARY) $(call object,tools/page.c)
$(PROGRAM) $(BUILD)/tests $(BUILD)/host/tests $(BUILD)/manual $(BUILD)/encode $(BUILD)/vocabulary $(BUILD)/page:
	@mkdir -p $(@D); echo "  link $@"
	$(Q)$(LINK) $^ $(LDLIBS) $(MPI_LIBS) -o $@

# The tests with forecasts of few samples, for thousands of plans: what counts samples is compiled again.
COUNTS_SAMPLES := $(shell grep -l FORECAST_SAMPLES $(CORE))
$(BUILD)/few/obj/%.c.o: %.c $(BUILD)/flags | $(BUILD)/deps
	@mkdir -p $(@D)
	$(Q)$(COMPILE) -DFORECAST_SAMPLES=500 -c $< -o $@
$(BUILD)/few/tests: $(patsubst %,$(BUILD)/few/obj/%.o,$(COUNTS_SAMPLES)) \
                    $(filter-out $(call object,$(COUNTS_SAMPLES)),$(LIBRARY) $(COMMANDS) $(call object,$(TESTS)))
	$(Q)$(LINK) $^ $(LDLIBS) $(MPI_LIBS) -o $@

# Stand-ins for a trainer and for NVIDIA's driver, used by tests.
$(BUILD)/stand_in/%.so: test/stand_ins/%.c | $(BUILD)/deps
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c17 $(WARNINGS) -O1 -shared -fPIC $< -o $@
$(BUILD)/stand_in/%: test/stand_ins/%.c | $(BUILD)/deps
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c17 $(WARNINGS) -O1 $< -o $@

# Faults: a preloaded library that lets one call fail, and what runs every command below it.
$(BUILD)/faults/inject.so: test/faults/inject.c test/faults/kinds.h | $(BUILD)/deps
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c17 -I. $(WARNINGS) -O1 -shared -fPIC $< -ldl -o $@
$(BUILD)/faults/torture: test/faults/torture.c test/faults/kinds.h | $(BUILD)/deps
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c17 -I. $(WARNINGS) -O1 $< -o $@

$(BUILD)/obj/%.c.o: %.c $(BUILD)/flags | $(BUILD)/deps
	@mkdir -p $(@D); echo "  cc   $<"
	$(Q)$(COMPILE) $(AT_LAST) -c $< -o $@
$(BUILD)/obj/test/%.c.o: AT_LAST = $(FOR_TESTS)

# The catalogs are compiled in: neither the program nor the page opens a file for them.
DATA := $(sort $(wildcard data/*.csv data/*.json data/*.jsonl data/*.bin data/*.css))
$(BUILD)/data.o: $(BUILD)/data.c
	$(Q)$(CC) -std=c17 -Isrc -c $< -o $@
$(BUILD)/data.c: $(BUILD)/embed $(DATA) $(LIVE) $(BUILD)/live
	$(Q)$(BUILD)/embed $(DATA) $(LIVE) > $@
# What --version prints, and the ledger stores with an entry.
FEATURES := CUDA $(if $(NVCC),yes,no)$(,) OpenBLAS $(if $(BLAS),yes,no)$(,) MPI $(if $(MPI_LIBS),yes,no)
$(BUILD)/version.o: $(BUILD)/version.c
	$(Q)$(CC) -std=c17 -Isrc -c $< -o $@
$(BUILD)/version.c: FORCE
	@mkdir -p $(@D); release=$$(cat VERSION); \
	 text="#include \"cli/command.h\"\nconst char command_release[] = \"$$release\";\nconst char command_version[] = \"$$(git describe --always --dirty 2>/dev/null || echo $$release)\";\nconst char command_features[] = \"$(FEATURES)\";"; \
	 printf "$$text\n" | cmp -s - $@ || printf "$$text\n" > $@
$(BUILD)/embed: tools/embed.c | $(BUILD)/deps
	$(Q)$(CC) -std=c17 -o $@ $<

# --- benches: each bench/bench_x.c is a program on the library ---------------

BENCHES := $(patsubst bench/bench_%.c,$(BUILD)/bench/%,$(wildcard bench/bench_*.c))
bench: benches
	$(Q)for bench in $(BENCHES); do case $$bench in *$(ONLY)*) $$bench || exit 1;; esac; done
benches: $(BENCHES) # built, not run: CI sees that they compile
$(BUILD)/bench/%: $(BUILD)/obj/bench/bench_%.c.o $(LIBRARY)
	@mkdir -p $(@D); echo "  link $@"
	$(Q)$(LINK) $^ $(LDLIBS) $(MPI_LIBS) -o $@

# --- CUDA, loaded at run time on machines with a GPU -------------------------

# The GPUs of this machine; where it has none, one of each recent generation. The largest is compiled to PTX too,
# which runs on GPUs that are newer than it, and on no others: not on a generation left out in between.
ARCHS ?= $(or $(FOUND_ARCHS),80 90 100 120)
SORTED_ARCHS := $(shell printf '%s\n' $(ARCHS) | sort -nu)
# 90a is 9.0 with the instructions that no other generation has.
GENCODE := $(foreach arch,$(SORTED_ARCHS:90=90a),-gencode arch=compute_$(arch)$(,)code=sm_$(arch)) \
           $(if $(filter 0,$(PTX)),,-gencode arch=compute_$(lastword $(SORTED_ARCHS))$(,)code=compute_$(lastword $(SORTED_ARCHS)))
NVCC_COMPILE := $(NVCC) -std=c++20 $(or $(CUDAFLAGS),-O3) -Isrc $(GENCODE) --Werror all-warnings -MMD -MP \
                -Xcompiler -fPIC$(,)-fvisibility=hidden$(,)-Wall$(,)-Wextra
CUDA_SOURCES := $(filter-out $(if $(FOUND_CUDNN),%/attention_no_cudnn.cu,%/attention_cudnn.cu),\
                $(wildcard src/train/cuda/*.cu src/train/cuda/*/*.cu))
CUDA_OBJECTS := $(patsubst %,build/cuda/%.o,$(CUDA_SOURCES))
# shared where the runtime of that machine is not here: bench/gpu/cross.sh
CUDART ?= static
# The library to install names CUDA's usual folder, not the one of this machine.
build/libgpuhours-cuda.so: CUDA_FOLDER = $(abspath $(dir $(NVCC))../lib64)
build/install/libgpuhours-cuda.so: CUDA_FOLDER = /usr/local/cuda/lib64
build/libgpuhours-cuda.so build/install/libgpuhours-cuda.so: $(CUDA_OBJECTS)
	@mkdir -p $(@D); echo "  link $@"
	$(Q)$(NVCC) -shared -cudart $(CUDART) $^ -lcublasLt -ldl -o $@ \
	    -Xlinker -rpath$(,)'$$ORIGIN' -Xlinker -rpath$(,)$(CUDA_FOLDER)
build/cuda/%.cu.o: %.cu build/cuda/flags
	@mkdir -p $(@D); echo "  nvcc $<"
	$(Q)$(NVCC_COMPILE) -c $< -o $@
ifeq ($(or $(MAKECMDGOALS),all),all)
$(CUDA_OBJECTS): | forecast
endif
build/cuda/flags: FORCE
	@mkdir -p $(@D); echo '$(NVCC_COMPILE)' | cmp -s - $@ || echo '$(NVCC_COMPILE)' > $@

cuda-parity: build/cuda-parity $(if $(NVCC),build/libgpuhours-cuda.so)
build/cuda-parity: $(LIBRARY) $(call object,$(wildcard test/cuda/*.c))
	@echo "  link $@"
	$(Q)$(LINK) $^ $(LDLIBS) $(MPI_LIBS) -o $@

# --- installing and packaging ------------------------------------------------

PREFIX ?= /usr/local
LIBRARY_TO_INSTALL := $(if $(NVCC),build/install/libgpuhours-cuda.so)
PAGE_TO_INSTALL := $(if $(filter 0,$(WEB)),,$(if $(FOUND_WASM),build/gpuhours.html))
install: $(PROGRAM) $(LIBRARY_TO_INSTALL) $(PAGE_TO_INSTALL) manuals
	$(Q)PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' PROGRAM=$(PROGRAM) LIBRARY=$(LIBRARY_TO_INSTALL) \
	    PAGE=$(PAGE_TO_INSTALL) tools/install install
uninstall:
	$(Q)PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' tools/install uninstall
deb: $(PROGRAM) $(LIBRARY_TO_INSTALL) $(PAGE_TO_INSTALL) manuals
	$(Q)PROGRAM=$(PROGRAM) LIBRARY=$(LIBRARY_TO_INSTALL) PAGE=$(PAGE_TO_INSTALL) tools/deb

# Everything under build/share is installed.
manuals: build/share/man/man7/gpuhours-guide.7
build/share/man/man7/gpuhours-guide.7: docs/guide.md tools/manpage VERSION build/date
	$(Q)mkdir -p $(@D); tools/manpage $< gpuhours-guide 7 > $@
build/date: FORCE # of every manual page
	@mkdir -p $(@D); day=$$(tools/date +%F) && { echo "$$day" | cmp -s - $@ || echo "$$day" > $@; }

# --- fuzzing: each test/fuzz/fuzz_x.c is a target with seeds in seeds/x ------

#   make fuzz MINUTES=10     all targets in parallel; their share of the time each
#   make fuzz-again          replays the inputs in the repository and a bounded run, as CI does
#   make fuzz-keep           adds what reached new code to the inputs in the repository
#   make fuzz-large          inputs of 1 MB within 2 s and 1 GiB
MINUTES ?= 4
FUZZED_COMMANDS := src/cli/dataset/units_document.c # readers above the library
FUZZED_TRAIN := src/train/decoder.c src/train/nf4.c src/train/storage.c $(wildcard src/train/files/*.c) # of the engine: what reads files
FUZZERS := $(patsubst test/fuzz/fuzz_%.c,build/fuzz/%,$(wildcard test/fuzz/fuzz_*$(ONLY)*.c))
# Without the checks of pointers, which the address sanitizer sees: their comparisons are traced too, at half the speed.
FUZZ_COMPILE := clang $(LANGUAGE) $(WARNINGS) -Wno-unknown-pragmas -O1 -g1 -fsanitize=fuzzer-no-link$(,)address$(,)undefined$(,)float-cast-overflow \
                -fno-sanitize=null$(,)alignment$(,)object-size$(,)pointer-overflow -fno-sanitize-recover=undefined$(,)float-cast-overflow
FUZZ_SECONDS ?= $(shell echo $$(( $(MINUTES) * 60 * $$(nproc) / $(words $(FUZZERS)) + 1 )))
fuzz: $(FUZZERS)
	$(Q)tools/fuzz $(FUZZ_SECONDS) $(FUZZERS)
fuzz-again fuzz-keep: fuzz-%: $(FUZZERS)
	$(Q)tools/fuzz $* $(FUZZERS)
fuzz-large: $(patsubst build/fuzz/%,$(BUILD)/large/%,$(FUZZERS))
	$(Q)bad=0; for target in $^; do $$target $$(ls -d test/fuzz/seeds/$${target##*/}/* | head -20) || bad=1; done; exit $$bad
$(BUILD)/large/%: $(BUILD)/obj/test/fuzz/fuzz_%.c.o $(BUILD)/obj/test/fuzz/large.c.o $(BUILD)/obj/test/fuzz/mutate.c.o $(LIBRARY) $(call object,$(FUZZED_COMMANDS))
	@mkdir -p $(@D)
	$(Q)$(LINK) $^ $(LDLIBS) $(MPI_LIBS) -o $@
build/fuzz/flags: FORCE
	@mkdir -p $(@D); echo '$(FUZZ_COMPILE)' | cmp -s - $@ || echo '$(FUZZ_COMPILE)' > $@
build/fuzz/obj/%.c.o: %.c build/fuzz/flags | build/fuzz/deps
	@mkdir -p $(@D); echo "  fuzz $<"
	$(Q)$(FUZZ_COMPILE) -c $< -o $@
# A library, so that a target holds only what it calls: after each input the fuzzer looks at every counter of a branch.
build/fuzz/code.a: $(patsubst %,build/fuzz/obj/%.o,$(BASE) $(CORE) $(HOST) $(FUZZED_TRAIN) $(FUZZED_COMMANDS))
	$(Q)rm -f $@; ar rc $@ $^
build/fuzz/%: build/fuzz/obj/test/fuzz/fuzz_%.c.o build/fuzz/obj/test/fuzz/mutate.c.o build/fuzz/code.a $(BUILD)/data.o
	@echo "  link $@"
	$(Q)clang -fsanitize=fuzzer$(,)address$(,)undefined$(,)float-cast-overflow $^ $(LDLIBS) -o $@
build/fuzz/deps: tools/deps
	@mkdir -p $(@D); INSTALL=$(INSTALL) tools/deps clang $(PACKAGES) && touch $@
.SECONDARY:

# --- the page: the same core, compiled for the browser -----------------------

WASM := clang --target=wasm32-wasi --sysroot=/usr
WASM_COMPILE := $(WASM) $(or $(WASMFLAGS),-O2) -msimd128 -std=c17 -ffp-contract=off $(WARNINGS) -Isrc -I. -MMD -MP
WASM_OBJECTS := $(patsubst %,build/web/obj/%.o,$(BASE) $(CORE) $(wildcard web/*.c) build/web/data.c)
build/web/flags: FORCE
	@mkdir -p $(@D); echo '$(WASM_COMPILE)' | cmp -s - $@ || echo '$(WASM_COMPILE)' > $@
build/web/obj/%.c.o: %.c build/web/flags | $(if $(FOUND_WASM),,build/deps-web)
	@mkdir -p $(@D); echo "  wasm $<"
	$(Q)$(WASM_COMPILE) -c $< -o $@
build/web/data.c: $(DATA) tools/embed.c | $(BUILD)/embed
	$(Q)mkdir -p $(@D); $(BUILD)/embed $(DATA) > $@
build/web/core.wasm: $(WASM_OBJECTS)
	@echo "  link $@"
	$(Q)$(WASM) -mexec-model=reactor -Wl,--strip-all -Wl,-z,stack-size=1048576 -Wl,--stack-first $^ -o $@
build/web/core.b64: build/web/core.wasm
	$(Q)gzip -9nc $< > $<.gz && base64 -w0 $<.gz > $@
build/gpuhours.html: $(BUILD)/page web/page.html web/live.css web/live.js build/web/core.b64
	@echo "  page $@"
	$(Q)$^ > $@

PAGE_PEERS := playwright-core@1.65.0 axe-core@4.14.0
build/page/node_modules:
ifeq ($(INSTALL),0)
	@echo "page: not installed: $(PAGE_PEERS)" >&2
else
	$(Q)command -v npm >/dev/null || tools/deps npm
	$(Q)npm install --silent --no-audit --no-fund --ignore-scripts --prefix build/page $(PAGE_PEERS) || { rm -rf $@; exit 1; }
endif

# Debian packages, checked once; again by the first make that may install what INSTALL=0 or a dry run left out.
MAY_INSTALL := $(if $(DRY_RUN),0,$(INSTALL))
$(BUILD)/deps: tools/deps $(if $(filter 0,$(MAY_INSTALL)),,$(shell test ! -s $(BUILD)/deps || echo FORCE))
	@mkdir -p $(@D); : > $@; INSTALL=$(MAY_INSTALL) MISSING=$@ tools/deps $(PACKAGES) || { rm -f $@; exit 1; }
build/deps-web: tools/deps
	@mkdir -p $(@D); INSTALL=$(INSTALL) tools/deps clang lld wasi-libc nodejs && \
	 INSTALL=$(INSTALL) tools/deps libclang-rt-$$(clang -dumpversion | cut -d. -f1)-dev-wasm32 && touch $@

build/deps-page: tools/deps
	@mkdir -p $(@D); INSTALL=$(INSTALL) tools/deps chromium && touch $@

# The age of nvcc says nothing: a package keeps the age of its files. So its path is compared with what was found.
$(BUILD)/found.mk: $(BUILD)/deps $(wildcard build/deps-web /var/lib/dpkg/status) \
                   $(if $(filter-out x$(FOUND_CUDA),x$(NVCC_HERE)),FORCE)
	@echo 'int main(void) { return 0; }' | $(CC) -fopenmp -x c - -o /dev/null 2>/dev/null && \
	 echo FOUND_OPENMP := -fopenmp >$@.new || : >$@.new
	@! pkg-config openblas || echo "FOUND_BLAS := $$(pkg-config --libs openblas)" >>$@.new
	@! pkg-config openblas || echo "FOUND_BLAS_FLAGS := $$(pkg-config --cflags openblas)" >>$@.new
	@! pkg-config ompi-c || echo "FOUND_MPI := $$(pkg-config --libs ompi-c)" >>$@.new
	@! pkg-config ompi-c || echo "FOUND_MPI_FLAGS := $$(pkg-config --cflags ompi-c)" >>$@.new
	@[ -z "$(NVCC_HERE)" ] || echo "FOUND_CUDA := $(NVCC_HERE)" >>$@.new
	@! echo '#include <cudnn.h>' | $(or $(NVCC_HERE),false) -E -x cu - >/dev/null 2>&1 || echo "FOUND_CUDNN := yes" >>$@.new
	@archs=$$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | sort -nu | tr '\n' ' '); \
	 case $$archs in [0-9]*) echo "FOUND_ARCHS := $$archs" >>$@.new ;; esac
	@grep -q '^FOUND_CUDA ' $@.new && echo "  has  CUDA" || echo "  no   nvcc: training on the CPU"
	@! echo 'int main(void) { return 0; }' | $(WASM) -x c - -o $(BUILD)/found.wasm 2>/dev/null || \
	 echo FOUND_WASM := yes >>$@.new
	@grep -q '^FOUND_BLAS ' $@.new && echo "  has  OpenBLAS" || echo "  no   OpenBLAS: products in plain C"
	@grep -q '^FOUND_MPI ' $@.new && echo "  has  MPI" || echo "  no   MPI: ranks meet over sockets"
	@grep -q '^FOUND_WASM ' $@.new && echo "  has  WebAssembly" || echo "  no   WebAssembly: reports without what-if"
	@mv $@.new $@

build/deps-oracles: tools/deps
	@mkdir -p $(@D); INSTALL=$(INSTALL) tools/deps unicode-data locales $$(command -v node >/dev/null || echo nodejs npm) && touch $@

# Everything is recompiled when the flags change.
FLAGS := $(COMPILE) / $(FOR_TESTS)
$(BUILD)/flags: FORCE
	@mkdir -p $(@D); echo '$(FLAGS)' | cmp -s - $@ || echo '$(FLAGS)' > $@

$(BUILD)/live: FORCE
	@mkdir -p $(@D); echo '$(LIVE)' | cmp -s - $@ || echo '$(LIVE)' > $@

-include $(shell find $(BUILD) build/fuzz build/cuda build/web -name '*.d' 2>/dev/null)
