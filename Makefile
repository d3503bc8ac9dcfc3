# Headgate. `make` lists the targets.

GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COMMIT   ?= $(shell git rev-parse HEAD 2>/dev/null)
LDFLAGS  := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
FUZZTIME ?= 1000000x
# Raced are packages that start goroutines, or whose tests do; the code of others
# runs in these. Not raced are the harness, most of which runs programs that are built
# without the race detector, and policy and its grammar, whose readers run in those of server.
ALONE    := bench|clients|difftest|docs|examples|faults|mutate|policy(/grammar)?$$|server/web/console/browser
RACED     = $$(grep -rlE --include='*.go' --exclude-dir=node_modules '^[[:space:]]*go |\.Go\(|httptest' . | \
	xargs -n 1 dirname | sort -u | grep -vE '^./($(ALONE))')
# What a test says that is shorter, or left out, with -short or under the race detector.
DIFFERS   = Short\(\)|(^|[^TtGgb])[Rr]ace|Allocs
# main leaves to race the tests of the raced that are the same in both, and whole packages
# of such tests (once).
SAME      = $$(scripts/same.sh '$(DIFFERS)' $(RACED))
ONCE      = $$(for d in $(RACED); do grep -qsE '$(DIFFERS)' $$d/*_test.go || echo $$d; done)
MAIN      = $$($(GO) list ./... | sed 's|^[^/]*/[^/]*/[^/]*|.|' | grep -vxF "$(ONCE)")
# The packages that take longest come first: none of them runs alone at the end.
# Three run at a time, since many wait for other processes.
FIRST    := ./server ./cmd/headgate ./engine ./script/lua ./shard
# Tests start processes, elections and clocks: on a machine that stands still
# for a second one may fail without a defect. It is run once more, alone, and
# the summary names it; more than three of them, or a data race, are final.
GOTEST   := bin/gotestsum --format standard-quiet --rerun-fails=1 --rerun-fails-max-failures=3 \
	--rerun-fails-run-root-test --rerun-fails-abort-on-data-race
TESTARGS := -p 3 -vet=off # lint vets
# The modules beside the main one: what applications import, and its tests with other
# people's libraries.
MODULES  := clients/go clients/go/goredis clients/go/rueidis clients/go/grpclimit clients/compat/sdk server/web/console/browser

# Programs of others that are for our sources, pinned in a module of their own.
TOOLS    := bin/gotestsum bin/staticcheck bin/vale

.DEFAULT_GOAL := help
.PHONY: help build run docs cluster quick test test-long prepare deps unit main modules race server brief brief-race vet \
	fuzz fuzz-brief mutate mutate-brief lint fmt bench \
	clients clients-brief test-console test-gateways test-clients test-sdks test-dropin test-faults

help: ## list the targets, with how long each takes on two cores and warm caches
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/headgate (seconds)
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/headgate ./cmd/headgate

run: build ## build and serve on 127.0.0.1:7379 and HTTP on 127.0.0.1:7380, until Ctrl-C
	exec bin/headgate serve

docs: ## write the documentation as a web site to bin/docs (seconds); a server has it below /docs/
	$(GO) run ./docs/site/build bin/docs

cluster: build ## run a cluster of three on 127.0.0.1:7379, 7389 and 7399, until Ctrl-C
	scripts/cluster.sh

quick: ## build, vet, tests that start no process, the race detector on a few packages (1.5 min)
	scripts/stages.sh build vet brief brief-race

vet:
	$(GO) vet ./...
	for m in $(MODULES); do (cd $$m && $(GO) vet ./...) || exit; done

brief: # short forms of those that start no process
	$(GO) test -short -vet=off -p 3 ./raftlog ./engine $$(scripts/quiet.sh)

brief-race: # where goroutines meet, in few seconds
	$(GO) test -short -vet=off -race ./ledger ./cluster/partition ./server/turns ./server/pubsub

test: ## everything a change must pass; installs what it needs (23 min)
	scripts/stages.sh prepare main race fuzz-brief mutate-brief clients-brief

test-long: mutate fuzz test-console test-clients test-sdks test-gateways test-dropin test-faults ## what test leaves out, one after another; rewrites docs/reliability-results.md (half a day, by estimate)

prepare: # one downloads, the other compiles
	$(MAKE) --no-print-directory -j2 deps lint

deps: # the programs that tests start
	scripts/test-deps.sh

unit: main modules ## unit and black-box tests of every module (9 min)
unit: SAME :=
unit: ONCE :=

main: server bin/gotestsum # test runs modules beside other clients
	$(GOTEST) --packages "$(FIRST) ./faults $(MAIN)" -- $(TESTARGS) -skip "$(SAME)"

modules: bin/gotestsum # clients/compat/run.sh sdk-go runs it, too
	for m in $(MODULES); do (cd $$m && $(CURDIR)/$(GOTEST) --packages ./... -- $(TESTARGS)) || exit; done

race: server bin/gotestsum ## the tests of what has goroutines, under the race detector; long models are shorter (8 min)
	$(GOTEST) --packages "$(FIRST) ./raftlog $(RACED)" -- $(TESTARGS) -race -short -timeout 20m
	cd clients/go && $(CURDIR)/$(GOTEST) --packages ./... -- $(TESTARGS) -race -short

# The program that tests start, built once for all of them. Not for mutate, which
# builds its own ones.
main race: export HGTEST_BIN := $(CURDIR)/bin/hgtest-headgate
server:
	$(GO) build -o bin/hgtest-headgate ./cmd/headgate

fuzz: ## run each fuzz target FUZZTIME long: a number of inputs (1000000x) or a time (5m) (hours)
	scripts/fuzz.sh $(FUZZTIME)

fuzz-brief: # by number: a run that ends by time fails by chance (golang.org/issue/75804)
	scripts/fuzz.sh 2000x unguided

mutate: ## break the sources on purpose, one edit at a time: a named test must fail for each (MUTATEFLAGS="-only raftlog") (some 10 min)
	$(GO) run ./mutate $(MUTATEFLAGS)

mutate-brief: # a few of the edits, others each day
	$(GO) run ./mutate -sample 6

lint: $(TOOLS) ## gofmt, go vet, staticcheck, and vale on documents and comments (1 min)
	scripts/lint.sh

$(TOOLS) &: tools/go.mod tools/go.sum
	cd tools && $(GO) build -o ../bin/ tool

fmt: ## format the Go sources (seconds)
	gofmt -l -w .

bench: ## measure against Redis and other peers, 45 minutes (BENCHFLAGS=-brief: 20); rewrites bench/results
	$(GO) run ./bench $(BENCHFLAGS)

clients: # the client libraries that need no more than Go, Node and Python
	clients/compat/run.sh go node python hiredis

clients-brief: # those that unit does not run; the longest come first
	clients/compat/run.sh sdk-typescript sdk-go sdk-python node python

test-gateways: deps ## the examples for gateways, each run by its program in front of an application; part of unit, too, except Traefik and LiteLLM, which are built or installed first (2 min; the build of Traefik 10, LiteLLM 2)
	scripts/traefik.sh
	scripts/litellm.sh
	$(GO) test -count=1 ./examples/...

test-console: deps server ## the console in Chromium: every page, broken clusters, axe, what a page costs; its short half is part of test. CONSOLEFLAGS=-update writes the pictures of docs/img (2 min)
	npm --prefix server/web/console/browser ci --silent --no-audit --no-fund
	cd server/web/console/browser && HGTEST_BIN=$(CURDIR)/bin/hgtest-headgate $(GO) test -count=1 -timeout 20m . -whole $(CONSOLEFLAGS)

test-clients: ## every client library, Java and Rust included, and killed leaders with twelve groups (minutes; it downloads them first)
	clients/compat/run.sh go node python hiredis java rust go-groups node-groups python-groups java-groups
	HGTEST_GROUPS=1 clients/compat/run.sh node-groups python-groups

test-sdks: ## our own packages: long tests, and each built and installed in an empty project (8 min)
	clients/python/test-sdks.sh
	clients/compat/run.sh sdk-typescript-long
	cd clients/compat/sdk && $(GO) test -count=1 -timeout 20m . -run TestReadme -packed

test-dropin: ## the tests of rate-limiting libraries made for Redis, against Redis and against Headgate, about an hour; says which ports it needs, if one is not free
	$(GO) run ./clients/dropin $(DROPINFLAGS)
	$(GO) test ./script/native -run TestPublished -published -count=1

test-faults: ## kill, cut off, pause and damage three real nodes, about 40 minutes (FAULTSFLAGS=-brief: 15); rewrites the results in docs/reliability-results.md and docs/leases-measured.md
	$(GO) run ./faults -all -doc docs/reliability-results.md -tests-doc docs/reliability-scenarios.md -leases-doc docs/leases-measured.md $(FAULTSFLAGS)
