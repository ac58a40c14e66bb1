# What a newcomer needs: make demo, make test.
GO ?= go
OUT ?= out
FUZZTIME ?= 20s
PKGS ?= ./...

.PHONY: demo test race bench fuzz fmt vet lint tidy arch clean

# demo trains a small real model and leaves its telemetry in out/demo.
demo:
	$(GO) run ./examples/charlm -fresh -epochs 1 -out $(OUT)/demo
	$(GO) run ./examples/charlm -resume -epochs 3 -async-checkpoint -style mixed -out $(OUT)/demo

# test runs every test with the race detector on.
test:
	$(GO) test -race $(PKGS)

race: test

# bench runs the benchmarks of the packages.
bench:
	$(GO) test -run '^$$' -bench . -benchmem ./telemetry ./dftracer ./exporters/... ./ai

# fuzz runs every fuzz target for FUZZTIME.
fuzz:
	@for pkg in $$($(GO) list $(PKGS)); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
			echo "$$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
		done; \
	done

# fmt fails when a file is not formatted.
fmt:
	@files=$$(git ls-files '*.go' | xargs gofmt -l); test -z "$$files" || { echo "not formatted:" $$files; exit 1; }

vet:
	$(GO) vet $(PKGS)

lint:
	$(GO) tool staticcheck $(PKGS)

# tidy fails when go.mod or go.sum would change.
tidy:
	$(GO) mod tidy -diff

clean:
	rm -rf $(OUT)
