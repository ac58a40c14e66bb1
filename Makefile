# The jobs that people start by hand. The scripts below tools do the work; .ci/run has all checks.
export GO PYTHON BIN OUT VERSION
OUT ?= out

.DEFAULT_GOAL := help
.PHONY: help build install demo test test-long check bench e2e generate release clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

build: ## build the command: bin/trainspan
	CGO_ENABLED=0 $(or $(GO),go) build -o bin/trainspan ./cmd/trainspan

install: ## build the command and install it with the Python client (PYTHON=, BIN=)
	@integrations/python/install.sh

demo: ## record a built-in job with a slow rank and a restart, and report it: trainspan demo
	$(or $(GO),go) run ./cmd/trainspan demo

test: ## run the tests except for the long ones (TESTFLAGS=)
	@tools/ci/test $(TESTFLAGS)

test-long: ## run all tests
	@tools/ci/test-long $(TESTFLAGS)

check: ## check format, modules, vet, linters, spelling and tests, as before a commit
	tools/ci/fmt
	tools/ci/tidy
	tools/ci/vet
	tools/ci/lint
	tools/ci/spell
	tools/ci/test $(TESTFLAGS)

bench: ## measure recording and reading beside their rivals (ARGS=: docs/maintain/releasing.md)
	cd test/bench && $(or $(GO),go) run ./cmd/table $(ARGS)

e2e: ## test against real servers and DuckDB: test/e2e/README.md
	tools/ci/duckdb
	tools/ci/e2e -v

generate: ## write all files and pictures that follow from code
	tools/generate
	tools/pictures

release: ## build archives, wheels and checksums of VERSION: out/release
	tools/release

clean: ## remove out and bin
	rm -rf $(OUT) bin
