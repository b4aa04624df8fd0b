# Entry point for developers and continuous integration: Go does the work, this file
# sets order and flags.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

# A Go or Node that .ci/install brought comes first: it is there only when no other
# was new enough. The sbin folders hold ip and ethtool.
export PATH := /usr/local/lib/pillion/go/bin:/usr/local/lib/pillion/node/node_modules/.bin:$(PATH):/usr/local/go/bin:/usr/sbin:/sbin
export BPF2GO_CC ?= clang-16
export BPF2GO_STRIP ?= llvm-strip-16

# One set of flags for the programs, their tests, and what checks them: Go compiles each
# package once, with and without cgo. Programs have no debug information anyhow, and Arrow's
# other JSON package takes long to compile. -tags on a command line replaces these: GOTAGS goes before.
GOTAGS := netgo,osusergo,arrow_json_stdlib
export GOFLAGS := $(strip $(shell PATH="$(PATH)" go env GOFLAGS 2>/dev/null) -trimpath -tags=$(GOTAGS) -gcflags=all=-dwarf=false)

# The compiler collects garbage only beyond a GiB: a quarter of the time of a first build.
COMPILER := GOGC=off GOMEMLIMIT=1GiB

# Go stamps the commit into the binary itself; it gives up where git refuses the
# folder (another owner, no .git), and a build without a stamp is better than none.
BUILDVCS := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo true || echo false)

# Where .ci/install test puts the packages that python/requirements-test.txt names.
PYTHON ?= /usr/local/lib/pillion/python/bin/python

SECONDS ?= 15
FUZZTIME ?= 60s
TESTTIME ?= 20m
LONGTIME ?= 75m
TIMES ?= 5
REV ?= HEAD
EXPERIMENT ?= overhead
RUN ?= .
PKG ?= ./lab
RESULTS ?= bin/results
KEEP ?=

# $(call GOTEST,NAME) runs Go tests; .ci/parts reads the times of tests from its file NAME.json.
GOTEST = go tool gotestsum --format=standard-quiet --hide-summary=skipped $(if $(PILLION_TEST_LOG),--jsonfile=$(PILLION_TEST_LOG)/$1.json) -- -vet=off -count=1 -ldflags='-s -w'

# A long test is called TestLong... and lives in a file ..._long_test.go, which begins
# with "//go:build long": elsewhere it does not exist, so it is never skipped. Go's vet
# runs in lint, for all files.
LONGPACKAGES = $(shell find . -name node_modules -prune -o -name '*_long_test.go' -printf '%h\n' | sort -u)
# A test that measures a figure again, which no behaviour depends on, is called TestVerify..., in a file ..._verify_test.go.
VERIFYPACKAGES = $(shell find . -name node_modules -prune -o -name '*_verify_test.go' -printf '%h\n' | sort -u)
# Of LONGPACKAGES, the ones that compute or wait for minutes and measure nothing: three at a time.
BUSYPACKAGES = ./lab/machine ./dist ./study/bench/campaign ./server/lane ./archive/clickhouse ./archive/transfer ./study/bench/fleet ./bus ./cli/server ./study/experiment/runner \
	./probe/module ./agent/runner ./study/bench/ingest ./probe/device ./probe/destination ./archive/duckdb ./server ./server/control ./study/bench/clickhouse \
	./cli/agent ./trace ./internal/sbom

# What make help lists, a regular expression.
FIRST := install|build|demo|test|lint|bench|packages|images|site|help-all

.PHONY: help
help: ## list the targets to begin with
	@$(MAKE) help-all | grep -E '^make ($(FIRST)) '

.PHONY: install
ifeq ($(filter command,$(firstword $(origin PREFIX)) $(firstword $(origin DESTDIR))),)
install: ## install what is required to build and run (Debian packages, Go); root is required only if something is missing. With PREFIX=/usr/local or DESTDIR: build, and install programs, manual pages, completions, units and the C library there
	@.ci/install
else
install: build clib
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" .ci/install-programs
endif

.PHONY: install-test
install-test: ## also install what only the page and the tests require (Node, Chromium, npm and Python packages, emulators and their kernels)
	@.ci/install test
	@.ci/packages
	@.ci/kernel || [ "$${CI:-}" != true ] # without them two tests are skipped, and in CI none is

.PHONY: install-metrics
install-metrics: install ## also install what test-metrics runs: Prometheus of Debian, and built from source, ten minutes the first time, a current one and an OpenTelemetry collector
	@.ci/install metrics

.PHONY: build
build: ## build bin/pillion-agent and bin/pillion, both static, and bin/pillion-server
	CGO_ENABLED=0 $(COMPILER) go build -trimpath -buildvcs=$(BUILDVCS) -ldflags '-s -w' -o bin/ ./cmd/pillion-agent ./cmd/pillion
	$(COMPILER) go build -trimpath -buildvcs=$(BUILDVCS) -ldflags '-s -w -extldflags=-Wl,--no-export-dynamic' -o bin/ ./cmd/pillion-server

.PHONY: build-all
build-all: ## build pillion-agent for arm64, armv7, mips and mipsle, static, into bin/linux-*; TARGETS="mips arm64" builds some
	@BUILDVCS=$(BUILDVCS) .ci/build-all $(TARGETS)

.PHONY: release
release: ## build a release of the commit into bin/release: programs, licences, bill of materials (CycloneDX), SHA256SUMS
	@.ci/install page
	@.ci/check-generated probe send api internal/notice ui
	@.ci/release

.PHONY: packages
packages: release ## pack the release into bin/packages: .deb, .rpm and tarballs of the three programs
	@.ci/package

.PHONY: images
images: release ## build container images of the release into bin/images: archives of pillion-agent and pillion-server
	@.ci/image

.PHONY: reproducible
reproducible: install-test ## build a release twice, the second time with an empty compiler cache, and compare (10 minutes)
	COLD=1 go test -count=1 -timeout=60m -tags=$(GOTAGS),long -run='^TestLongReleaseIsReproducible$$' ./dist

.PHONY: vulnerabilities
vulnerabilities: ## ask the public databases for known vulnerabilities of Go modules and npm packages
	@.ci/install page
	@.ci/vulnerabilities

.PHONY: site
site: ## build web pages of the documents in bin/site; bin/site/index.html also works without a web server
	@.ci/install site
	@.ci/site bin/site

.PHONY: clib
clib: ## build the C library into clib/build
	@$(MAKE) -C clib

.PHONY: page
page: ## build the web page into ui/dist, embedded in pillion-server
	@.ci/install page
	go generate ./ui

.PHONY: generate
generate: ## generate the BPF objects, the API code, the web page and the licences
	go generate ./probe/... ./send/... ./api ./ui ./internal/notice

.PHONY: check-generated
check-generated: ## check that generated files match their sources
	@.ci/check-generated probe send api ui internal/notice

.PHONY: lint
lint: ## run gofmt, go vet, staticcheck, tsc, shellcheck if installed, and check the layout and the language of the tree
	@.ci/packages
	@failed=; \
	unformatted=$$(find . -name node_modules -prune -o -name '*.go' -exec gofmt -l {} +); \
	[ -z "$$unformatted" ] || { echo "gofmt: run 'gofmt -w' on:" $$unformatted >&2; failed=1; }; \
	go vet -tags=$(GOTAGS),long,verify,metrics ./... || failed=1; \
	go tool staticcheck -tags=$(GOTAGS),long,verify,metrics ./... || failed=1; \
	(cd ui && npx tsc --noEmit) || failed=1; \
	! command -v shellcheck >/dev/null || shellcheck .ci/* || failed=1; \
	go test -vet=off -count=1 -run='^Test(Layout|Language)' ./internal/layout || failed=1; \
	[ -z "$$failed" ]

.PHONY: test
test: install-test ## install, check generated files, lint, run all tests except the long ones; also works on a busy machine
	@.ci/parts test-go -- test-python test-ui test-clib test-page -- lint check-generated

.PHONY: test-long
test-long: install-test build ## run the long tests, which take minutes, the race detector, and each fuzz target for 1 s
	@FUZZTIME=1s .ci/parts test-long-lab test-long-page -- test-race test-long-go fuzz test-long-python

.PHONY: test-long-lab
test-long-lab: build ## run the long Go tests that measure, one package at a time
	PILLION_TEST_PROGRAMS=$(CURDIR)/bin $(call GOTEST,lab) -p=1 -timeout=$(LONGTIME) -tags=$(GOTAGS),long -run='^TestLong' $(filter-out $(BUSYPACKAGES),$(LONGPACKAGES))

.PHONY: test-long-go
test-long-go: ## run the long Go tests that compute or wait
	$(call GOTEST,long) -p=3 -timeout=$(LONGTIME) -tags=$(GOTAGS),long -run='^TestLong' $(filter $(BUSYPACKAGES),$(LONGPACKAGES))

.PHONY: test-long-page
test-long-page: build ## run the long tests of the page: ui/test/*.long.test.ts
	go build -o bin/ ./study/bench/crowd github.com/nats-io/nats-server/v2
	cd ui && LONG=1 npx vitest run --config test/vitest.config.ts long.test

.PHONY: verify
verify: install-test build ## measure again the figures that the documents state, beside their targets: before a release, or when a change may move one (an hour, on an idle machine)
	@FUZZTIME=$(FUZZTIME) .ci/parts verify-go verify-page verify-statistics fuzz reproducible

.PHONY: rot
rot: build ## damage each file of a server and of an agent in each way, start them, and check that nothing is lost without a word (10 minutes)
	PILLION_TEST_PROGRAMS=$(CURDIR)/bin $(call GOTEST,rot) -timeout=2h -tags=$(GOTAGS),long,verify -run='^TestVerifyRot$$' ./lab

.PHONY: verify-go
verify-go: build ## measure figures by Go tests: a million packets of each encoding, capacities, benchmarks of a known bottleneck
	PILLION_TEST_PROGRAMS=$(CURDIR)/bin $(call GOTEST,verify) -p=1 -timeout=2h -tags=$(GOTAGS),long,verify -run='^TestVerify|^TestLong(RoundTripAgrees|Waypoints|HopsAgree)$$' $(VERIFYPACKAGES)

.PHONY: verify-page
verify-page: build ## measure how soon the page shows loss, and a program that hides Pillion's
	@.ci/packages
	cd ui && LONG=1 npx vitest run --config test/vitest.config.ts live -t 'loss in the network shows|hides Pillion'

.PHONY: verify-statistics
verify-statistics: ## simulate how often intervals hold the truth, and false positives; a tenth of bench-statistics
	@.ci/install test
	go run ./study/bench/statistics -share 0.1
	$(PYTHON) study/bench/statistics/simulate.py --share 0.1

.PHONY: test-metrics
test-metrics: install-metrics ## compare metrics with what Prometheus (of Debian, and a current one) says: scraped, by an OpenTelemetry collector, by remote write; ask it what dashboards ask
	go test -count=1 -v -tags=$(GOTAGS),metrics -run='^TestPrometheus' ./server

.PHONY: test-busy
test-busy: install-test ## run make test TIMES (5) times with a busy loop on each core; results in bin/busy
	@.ci/busy $(TIMES)

.PHONY: stress
stress: build ## run the tests RUN (a regular expression) of PKG (./lab) TIMES (5) times with a busy loop on each core, and count failures; RACE=1 with the race detector, TAGS=long the long tests
	@RUN='$(RUN)' TIMES=$(TIMES) RACE=$(RACE) TAGS=$(TAGS:%=$(GOTAGS),%) .ci/stress $(PKG)

.PHONY: test-clib
test-clib: ## test the C library
	@$(MAKE) -C clib test

.PHONY: test-go
test-go: build ## run the Go tests, including system tests; the longest packages begin first, and most of their time they wait
	PILLION_TEST_PROGRAMS=$(CURDIR)/bin $(call GOTEST,go) -p=5 -timeout=$(TESTTIME) ./lab/... ./probe/... ./server ./archive/... ./study/bench/overhead ./cli/... ./...

.PHONY: test-python
test-python: ## test the Python package
	@.ci/install test
	cd python && MPLBACKEND=svg $(PYTHON) -m unittest discover

.PHONY: test-long-python
test-long-python: ## run the long Python tests: documents by a shell, and the notebook in a kernel of Jupyter
	@.ci/install test
	cd python && LONG=1 MPLBACKEND=svg $(PYTHON) -m unittest discover -k .Long

.PHONY: test-ui
test-ui: ## test the page without a browser
	@.ci/packages
	node --test study/bench/page/trace.test.mjs
	cd ui && npx vitest run

.PHONY: test-page
test-page: build ## test the page in a browser against a real server and agents in a lab
	cd ui && npx vitest run --config test/vitest.config.ts

.PHONY: screenshots
screenshots: build ## run the tests of the page and write docs/images
	go build -o bin/ ./study/bench/crowd github.com/nats-io/nats-server/v2
	cd ui && LONG=1 UPDATE_SCREENSHOTS=1 npx vitest run --config test/vitest.config.ts

.PHONY: demo
demo: install build ## run server and agents in a lab for SECONDS (15); KEEP=1 leaves it up
	bin/pillion-agent lab demo --seconds $(SECONDS) $(if $(KEEP),--keep)

.PHONY: install-fleet
install-fleet: ## also install what a fleet in a lab runs (ClickHouse, ZooKeeper)
	@.ci/install fleet

.PHONY: demo-fleet
demo-fleet: install install-fleet build ## the same on three servers, a NATS cluster and a ClickHouse cluster, with a server and a replica killed half way; SECONDS (20); KEEP=1 leaves it up
	go build -o bin/ github.com/nats-io/nats-server/v2
	bin/pillion-agent lab demo --fleet --seconds $(if $(filter command environment,$(firstword $(origin SECONDS))),$(SECONDS),20) $(if $(KEEP),--keep)

.PHONY: ledger
ledger: install install-fleet build ## kill programs of a fleet at random for SECONDS (600), and check that each row is stored exactly once; SEED=n repeats one; UNFENCED=1 shows that it fails without the fence of lanes
	go build -o bin/ github.com/nats-io/nats-server/v2 ./study/bench/ledger
	$(if $(UNFENCED),mkdir -p bin/unfenced && cp bin/pillion bin/pillion-agent bin/nats-server bin/unfenced/ && go build -ldflags '-X pillion.dev/archive/clickhouse.fencing=off' -o bin/unfenced/ ./cmd/pillion-server)
	bin/ledger $(if $(UNFENCED),-bin bin/unfenced) -seconds $(if $(filter command environment,$(firstword $(origin SECONDS))),$(SECONDS),600) $(if $(SEED),-seed $(SEED))

.PHONY: first-delay
first-delay: install build ## measure the time from zero to the first live delay in a lab, twelve times
	go build -o bin/ ./study/bench/first-delay
	.ci/experiment $(RESULTS) study/bench/first-delay.yaml

.PHONY: bench-alarms
bench-alarms: install build ## measure the time from loss, silence and another path in a lab to a webhook and an e-mail, five times each (8 minutes; QUICK=1: 2 minutes)
	go build -o bin/bench/ ./study/bench/alarms
	.ci/experiment $(RESULTS) study/bench/alarms.yaml

.PHONY: campaign
campaign: install build ## let random faults happen to a server and agents for SECONDS (1800), and check that each acknowledged row is stored once; SEED=n repeats one
	go build -o bin/campaign ./study/bench/campaign
	bin/campaign --seconds $(if $(filter command environment,$(firstword $(origin SECONDS))),$(SECONDS),1800) $(if $(SEED),--seed $(SEED))

.PHONY: install-bench
install-bench: ## also install what the benchmarks compare Pillion with (softflowd, iperf2, D-ITG)
	@.ci/install bench

.PHONY: bench
bench: install build ## measure the overhead (at most 30 minutes), or EXPERIMENT=overhead-peers and others (study/bench/*.yaml); QUICK=1 proves that it runs
	go build -o bin/ ./study/bench/overhead
	.ci/experiment $(RESULTS) $(EXPERIMENT:%=study/bench/%.yaml)

.PHONY: bench-probes
bench-probes: install build ## compare what the probes cost in revision OLD (HEAD~1) and NEW (the files as they are) (15 minutes; QUICK=1: 2 minutes)
	go build -o bin/ ./study/bench/probes
	.ci/experiment $(RESULTS) study/bench/probes.yaml

.PHONY: paper-s1
paper-s1: install build ## repeat the experiments of pezaros-2011, in-line IPv6 measurement (2 hours; QUICK=1: 10 minutes)
	go build -o bin/ ./study/bench/overhead
	.ci/experiment --paper pezaros-2011 $(RESULTS) study/bench/paper/s1/*.yaml

.PHONY: paper-s2
paper-s2: install build ## repeat the experiments of hamilton-2012, the service infrastructure (1 hour; QUICK=1: 3 minutes)
	go build -o bin/ ./study/bench/overhead
	.ci/experiment --paper hamilton-2012 $(RESULTS) study/bench/paper/s2/*.yaml

.PHONY: paper-s3
paper-s3: workloads ## repeat the experiments of angrisani, router delays (20 hours at most; QUICK=1: 10 minutes)
	.ci/experiment --paper angrisani $(RESULTS) study/bench/paper/s3/*.yaml

INSTRUMENTED = $(CC) -std=c11 -D_GNU_SOURCE -O2

.PHONY: instrumented
instrumented: install build ## build the workloads that report by OML's protocol into bin/bench
	$(MAKE) -s -C clib
	go build -o bin/bench/ ./study/bench/instrumented
	$(INSTRUMENTED) -Iclib/include -o bin/bench/traffic study/bench/instrumented/traffic/traffic.c clib/build/libpillion.a -lm -pthread
	$(INSTRUMENTED) -DPLAIN -o bin/bench/traffic-plain study/bench/instrumented/traffic/traffic.c -lm -pthread
	$(INSTRUMENTED) -Iclib/include -o bin/bench/pace study/bench/instrumented/pace/pace.c clib/build/libpillion.a -lm -pthread

.PHONY: paper-s4
paper-s4: instrumented ## repeat the experiments of mehani-2011, instrumented applications (7 hours; QUICK=1: 12 minutes)
	.ci/experiment --paper mehani-2011 $(RESULTS) study/bench/paper/s4/*.yaml

.PHONY: bench-relay
bench-relay: instrumented ## measure the sample rate and the cost of an agent's relay and filters (10 minutes; QUICK=1: 1 minute)
	.ci/experiment $(RESULTS) study/bench/relay.yaml

.PHONY: paper-s5
paper-s5: workloads ## repeat the experiments of li-2015, exact sending (10 hours at most; QUICK=1: 10 minutes)
	.ci/experiment --paper li-2015 $(RESULTS) study/bench/paper/s5/*.yaml

.PHONY: bench-service
bench-service: install build ## measure ingest, 500 agents, queries over 100 million rows, and appending (two hours at most; QUICK=1: 2 minutes)
	go build -o bin/bench/ ./study/bench/ingest ./study/bench/query ./study/bench/fill
	go test -c -o bin/bench/duckdb.test ./archive/duckdb
	.ci/experiment $(RESULTS) study/bench/ingest.yaml study/bench/steady.yaml study/bench/query.yaml study/bench/fill.yaml

.PHONY: bench-clickhouse
bench-clickhouse: install install-fleet build ## measure questions to 100 million rows in ClickHouse, and inserts against the driver's plain blocks (45 minutes at most; QUICK=1: 2 minutes)
	go build -o bin/bench/ ./study/bench/clickhouse
	.ci/experiment $(RESULTS) study/bench/clickhouse-query.yaml study/bench/clickhouse-insert.yaml

.PHONY: bench-fleet
bench-fleet: install install-fleet build ## measure three servers, three NATS hubs and ClickHouse with 100 to 10,000 simulated agents, in steps, as far as the machine carries them (20 minutes; QUICK=1: 2 minutes); STEPS=100,300 are others
	go build -o bin/ github.com/nats-io/nats-server/v2
	go build -o bin/bench/ ./study/bench/crowd
	$(if $(STEPS),STEPS=$(STEPS)) .ci/experiment $(RESULTS) study/bench/fleet.yaml

.PHONY: bench-page
bench-page: install build ## measure the page's charts in Chromium, 3 to 200 lines, live (20 minutes; QUICK=1: 2 minutes)
	@.ci/install test
	@.ci/packages
	node study/bench/page/bundle.mjs bin/bench/page
	.ci/experiment $(RESULTS) study/bench/page.yaml

.PHONY: bench-topology
bench-topology: build ## measure the topology of 200 simulated agents in full mesh: size of the answer, time of the first drawing, longest tasks in Chromium (4 minutes); AGENTS=n others
	@.ci/install test
	@.ci/packages
	go build -o bin/ ./study/bench/crowd
	node study/bench/page/topology.mjs $(if $(AGENTS),--agents $(AGENTS))

.PHONY: bench-oml
bench-oml: instrumented ## measure the ingest of application reports and the cost of reporting (an hour at most; QUICK=1: 2 minutes); PEER=PREFIX also runs an installed OML for comparison
	go build -o bin/bench/ ./study/bench/oml
	.ci/experiment $(RESULTS) study/bench/oml.yaml study/bench/inject.yaml study/bench/inject-killed.yaml
	$(if $(PEER),$(INSTRUMENTED) -DPEER -I$(PEER)/include -o bin/bench/pace-oml2 study/bench/instrumented/pace/pace.c -L$(PEER)/lib -Xlinker -rpath=$(PEER)/lib -loml2 -locomm)
	$(if $(PEER),.ci/experiment $(RESULTS) study/bench/oml-peers.yaml study/bench/inject-peers.yaml)

.PHONY: workloads
workloads: install build ## build the workloads of the experiments on routers and senders into bin/bench
	go build -o bin/bench/ ./study/bench/router ./study/bench/send ./study/bench/capacity

.PHONY: bench-router
bench-router: workloads ## measure what the router profile costs and whether its account closes (an hour; QUICK=1: 2 minutes)
	.ci/experiment $(RESULTS) study/bench/router*.yaml

.PHONY: bench-send
bench-send: install-bench workloads ## compare the sender with iperf2, iperf3 and D-ITG, and measure models (2 hours; QUICK=1: 8 minutes)
	.ci/experiment $(RESULTS) study/bench/send*.yaml

.PHONY: bench-capacity
bench-capacity: workloads ## measure how well capacities are estimated (half an hour; QUICK=1: 2 minutes)
	.ci/experiment $(RESULTS) study/bench/capacity.yaml

.PHONY: bench-statistics
bench-statistics: ## measure permanova, and simulate coverage and false positives of the runner and the Python package (20 minutes)
	@.ci/install test
	go run ./study/bench/statistics -out study/bench/results/statistics-runner.json
	$(PYTHON) study/bench/statistics/permanova.py
	$(PYTHON) study/bench/statistics/simulate.py --out study/bench/results/statistics.json

.PHONY: bench-metrics
bench-metrics: install build ## measure the CPU time of a scrape of /metrics and of an export by OTLP, with 1,000 pairs (a minute)
	go run ./study/bench/metrics

.PHONY: size
size: ## count lines of code at REV (HEAD) and now, without tests and generated files
	@.ci/size $(REV)

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (60s)
	@FUZZTIME=$(FUZZTIME) .ci/fuzz

# Packages whose goroutines share state. Not archive/duckdb, which takes ten minutes under
# the detector.
RACEPACKAGES = ./bus ./agent/identity ./agent/loader ./oml/agent ./agent/service ./agent/spool ./agent/validation \
	./measure/... ./oml/report ./oml/omsp/... ./server/... ./session

# A test that computes for long in one goroutine: the detector finds nothing in it, and makes
# it ten times slower.
RACESKIP = ^TestRoundsAreIncremental$$

.PHONY: test-race
test-race: ## run the tests of packages with concurrency under the race detector
	$(call GOTEST,race) -race -p=2 -timeout=$(TESTTIME) -skip='$(RACESKIP)' $(RACEPACKAGES)

.PHONY: clean
clean: ## remove build results
	rm -rf bin
	@$(MAKE) -C clib clean
	rm -f study/bench/results/*.tmp

.PHONY: help-all
help-all: ## list all targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
