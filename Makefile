# What a newcomer needs: make demo, make test.
GO ?= go
OUT ?= out
FUZZTIME ?= 10s
# The library, the command and the examples, three modules that go.work joins.
PKGS ?= ./... ./cmd/trainspan/... ./examples/...
# The race detector needs a C compiler; Go says 0 where there is none.
RACE := $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)
NESTED = benchmarks collector/dftracerexporter e2e $(if $(RACE),e2e/duckdb) integrations/gomlx release report/browser

.PHONY: install demo demo-faults demo-python pictures test test-long times torch torch-new originals originals-dftracer race goroutines hold bench bench-python e2e e2e-short dask duckdb collector nested growth dead fuzz check fmt lint vet tidy api release wheels clean

# install builds the command for this machine and installs it with the Python client:
# into the virtual environment of PYTHON, or the command alone into BIN.
install:
	@GO="$(GO)" PYTHON="$(PYTHON)" BIN="$(BIN)" integrations/python/install.sh

# demo trains a small real model in two parts, so that a checkpoint is loaded,
# leaves its telemetry in out/demo, and reports what it ran.
demo:
	$(GO) run ./examples/charlm -fresh -epochs 1 -out $(OUT)/demo
	$(GO) run ./examples/charlm -resume -epochs 3 -async-checkpoint -style mixed -out $(OUT)/demo
	$(GO) run ./cmd/trainspan validate $(OUT)/demo
	$(GO) run ./cmd/trainspan report $(OUT)/demo --html $(OUT)/demo/report.html

# demo-faults trains four ranks, one of them slow in its data loader, kills all
# of them once and resumes. Its report must name the rank, the cause and the loss.
demo-faults:
	$(GO) run ./examples/charlm/ranks -out $(OUT)/demo-faults
	$(GO) run ./cmd/trainspan report $(OUT)/demo-faults --html $(OUT)/demo-faults/report.html

# demo-python trains a small model with PyTorch on two ranks, one of them with a
# slow data set. The program knows nothing of trainspan; its report names the rank
# and the cause. PYTHON is an interpreter that has torch.
demo-python:
	$(GO) build -o bin/trainspan ./cmd/trainspan
	rm -rf $(OUT)/demo-python
	SLOW_RANK=1 bin/trainspan run --dir $(OUT)/demo-python -- $(or $(PYTHON),/usr/bin/python3) examples/pytorch/launch.py --ranks 2 examples/pytorch/train.py \
		--steps 40 --width 32 --length 32 --slow-ms 30 --out $(OUT)/demo-python/checkpoints

# pictures runs the demo with faults and takes the pictures of its report that the
# documents show, with Chromium: docs/pictures.
pictures: demo-faults
	mkdir -p docs/pictures
	cd report/browser && TRAINSPAN_PICTURES=$(CURDIR)/docs/pictures TRAINSPAN_FAULTS=$(abspath $(OUT))/demo-faults \
	$(GO) test -count=1 -v -run Pictures .

# goroutines lists the packages whose code starts goroutines or guards what they share.
STARTS = '^[[:space:]]*go [a-zA-Z(]|\.Go\(|sync\.(RW)?Mutex|atomic\.'
goroutines:
	@$(GO) list -f '{{range .GoFiles}}{{$$.ImportPath}} {{$$.Dir}}/{{.}}{{"\n"}}{{end}}' $(PKGS) | \
	while read -r pkg file; do if grep -qE $(STARTS) "$$file"; then echo "$$pkg"; fi; done | sort -u

# What reads files when the training is over shares little between goroutines, and
# takes the longest with the race detector.
OFFLINE = /(analysis|report|cmd/trainspan|examples|integrations/pytorch|internal/(run|summary|fromrun|replay|profile|evidence|kineto|torchtrace))(/|$$$$)

# test runs the tests of the root module and the command but the long ones, with the
# race detector where goroutines run beside a training; test-long runs all of them,
# without; race has them all with it. What go test would vet of each package is a part
# of vet, which check and .ci/run have.
GOTEST = $(GO) test -vet=off -timeout 30m
test:
	@test -n "$(RACE)" || echo "no C compiler: the tests run without the race detector"
	@$(GO) list -export -f '' $(PKGS) # compiles all, and links nothing
	@some=$$($(MAKE) -s goroutines | grep -vE '$(OFFLINE)') && rest=$$($(GO) list $(PKGS) | grep -vxF "$$some") && \
	$(GOTEST) -short $(TESTFLAGS) $$rest && $(GOTEST) -short $(TESTFLAGS) $(RACE) $$some

test-long:
	$(GOTEST) $(PKGS)

# torch runs the tests of jobs in PyTorch 2.6, torch-new in the newest that Debian
# has, with more jobs, in folders that are made once: docs/python.md. Where they
# cannot be made a line says so.
TORCHENV = integrations/python/testdata/torch/env.sh
TORCHTEST = env CGO_ENABLED=0 $(GO) test -p 1 -count=1 -timeout 60m ./integrations/python/... ./examples/pytorch
torch:
	$(TORCHENV) 2.6 $(TORCHTEST) || [ $$? = 75 ]

torch-new:
	TRAINSPAN_TORCH_JOBS=all $(TORCHENV) new $(TORCHTEST) || [ $$? = 75 ]

# originals runs programs with the libraries whose APIs the Python client has, as
# they are on PyPI, and compares what is written, record by record. Where they
# cannot be installed a line says so.
originals:
	GO="$(GO)" integrations/python/testdata/onelogger/originals.sh

# originals-dftracer runs random programs with DFTracer, as it is on PyPI, and with
# the Python client, and compares the traces record by record. Where it cannot be
# installed a line says so.
originals-dftracer:
	GO="$(GO)" integrations/python/testdata/dftracer/originals.sh

race:
	$(GOTEST) -short $(RACE) $(PKGS)

# times prints the packages whose tests take most of the processor: docs/releasing.md.
times:
	@.ci/times

# hold runs the tests again and again beside busy processes: hours. It resumes.
hold:
	.ci/hold $(OUT)

# bench prints the table of docs/benchmarks.md in some minutes: each row beside its rival
# in the same run. ARGS="-row 'start|report'" chooses rows, ARGS=-cases prints every way
# to record a span; benchmarks/cmd/table.
bench:
	cd benchmarks && $(GO) run ./cmd/table $(ARGS)

# bench-python prints the tables of docs/benchmarks.md that are about Python, in the PyTorch of make torch.
bench-python:
	cd cmd/trainspan && $(GO) build -o $(CURDIR)/$(OUT)/trainspan .
	TRAINSPAN=$(CURDIR)/$(OUT)/trainspan $(TORCHENV) 2.6 python3 benchmarks/python/rivals.py || [ $$? = 75 ]

# e2e builds real servers once and tests against them, then prints a table of
# what failing backends cost; e2e-short leaves the table out. e2e/README.md.
e2e:
	cd e2e && $(GO) test -count=1 -timeout 20m -v ./...

e2e-short: duckdb
	cd e2e && $(GO) test -count=1 -timeout 30m -short ./...

# dask has a Dask cluster of processes report a job, one of them killed on the way. Where
# its packages cannot be fetched the test says so.
dask:
	cd e2e && $(GO) test -count=1 -timeout 20m -run '^TestDask$$' ./...

# duckdb runs the queries of docs/queries against what the command says. DuckDB
# needs a C compiler.
duckdb:
	$(if $(RACE),cd e2e/duckdb && $(GO) test -count=1 ./...,@echo "no C compiler: the SQL of docs/queries is not run")

# collector builds bin/trainspan-collector; docs/scale.md.
collector:
	$(MAKE) -C collector collector

# nested checks the modules that nothing imports, and opens a report's page in
# Chromium where there is one.
nested:
	for m in $(NESTED); do (cd $$m && $(GO) vet ./...) || exit 1; done
	cd report/browser && $(GO) test ./...
	$(MAKE) -C collector test
	cd integrations/gomlx && $(GO) test ./...

# growth prints what 16 times the input costs, and fails where it is over 24 times.
growth:
	@$(GO) test -run '^$$' -bench Growth -benchtime 1x $(PKGS) | awk '/^pkg:/ {sub(".*/trainspan/", "", $$2); pkg=$$2} /x16/ {print pkg, $$0} /^FAIL|panic/ {bad=1; print} /x16/ {for (i=2; i<=NF; i++) if ($$i == "x16" && $$(i-1) > 24) bad=1} END {exit bad}'

# dead prints the functions that nothing reaches, of all modules at once, in some minutes.
dead: bin/deadcode
	@.ci/dead

bin/deadcode: tools/go.mod
	cd tools && $(GO) build -o ../bin/ golang.org/x/tools/cmd/deadcode

# fuzz runs every fuzz target for FUZZTIME.
fuzz:
	@for pkg in $$($(GO) list $(PKGS)); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
			echo "$$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$pkg || exit 1; \
		done; \
	done

# fmt fails when a file is not formatted.
fmt:
	@files=$$(git ls-files '*.go' | xargs gofmt -l); test -z "$$files" || { echo "not formatted:" $$files; exit 1; }

vet:
	$(GO) vet $(PKGS)

# lint runs the linters of .golangci.yml. They are a module of their own, tools, so
# that none of what they need is in the library's go.mod.
lint: bin/golangci-lint
	bin/golangci-lint run $(PKGS)

bin/golangci-lint: tools/go.mod
	cd tools && $(GO) build -o ../bin/ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

# check is what should pass before a commit; .ci/run is all there is.
check: fmt vet lint test

# tidy fails when go.mod or go.sum would change. The go.mod of the command and the
# examples have no replace, as they are published; the copies that are checked have one.
tidy:
	$(GO) mod tidy -diff
	cd tools && $(GO) mod tidy -diff
	@for m in cmd/trainspan examples; do (dir=$$(mktemp -d) && trap 'rm -r '$$dir EXIT && cd $$m && cp go.mod go.sum $$dir/ && \
	$(GO) mod edit -replace github.com/trainspan/trainspan=$(CURDIR) $$dir/go.mod && GOWORK=off $(GO) mod tidy -diff -modfile=$$dir/go.mod) || exit 1; done

# api compares the exported API with that of release/api-base; release builds all that
# VERSION brings, wheels the packages of Python alone. docs/releasing.md.
api:
	$(MAKE) -C release api

release:
	$(MAKE) -C release release

wheels:
	$(MAKE) -C release wheels

clean:
	rm -rf $(OUT) bin
