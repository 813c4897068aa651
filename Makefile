# Weir. `make help` lists what can be made.

GO        ?= go
BIN       := bin
FUZZTIME  ?= 10m
ROUNDS    ?= 50
SEEDS     ?= 20000
LEASED_SEEDS ?= 10000
LEDGER_ROUNDS ?= 6
FIRST     ?= 0
NODES     ?= 1,3,10,30,100
KEYS      ?= 100000
HITS      ?= 5000
ZIPF      ?= 0
SERVERS   ?= 30
RTT       ?= 80ms
CUT       ?= 60s
FLUSH     ?= 100ms
PARALLEL  ?= 10
PACKAGES  ?= 4
VERBOSE   ?= -v
GORELEASER := v2.15.1
LINT      := $(BIN)/golangci-lint
VERSION   := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS   := -s -w -X main.version=$(VERSION)

.DEFAULT_GOAL := help
.PHONY: help run cluster cluster-ledger regions build image test test-netns test-bench test-browser test-chart pods race sim sim-leased sim-regions regions-crash regions-size regions-fleet crash cluster-crash cluster-netns cluster-size memory cluster-lag pages-cost soak suites fuzz lint fmt bench bench-journal bench-listeners bench-sql bench-history bench-growth bench-peers adversary textbook check clean need-go settings snapshot docs docs-serve web web-test pictures size

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## Start Weir on http://127.0.0.1:8080, data in ./weir-data (more: ARGS="--http ...")
	$(BIN)/weir serve $(ARGS)

cluster: build ## Start three nodes that count together, on http://127.0.0.1:8081 to 8083 and RESP on 9081 to 9083 (others: PORT=18081), data in ./weir-cluster (more: ARGS="--policy ...")
	@tools/cluster.sh $(BIN)/weir weir-cluster $(ARGS)

regions: build ## Start three regions that count together, on http://127.0.0.1:8091 to 8093 (others: PORT=18091), data in ./weir-regions (more: ARGS="--policy ...")
	@tools/regions.sh $(BIN)/weir weir-regions $(ARGS)

build: need-go ## Build bin/weir: one static file that needs nothing else
	CGO_ENABLED=0 $(GO) build -v -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/weir ./cmd/weir

image: build ## Build bin/weir-image.tar, an OCI image with nothing but Weir; needs no Docker (docs/deploy.md)
	deploy/image.sh $(BIN)/weir $(VERSION) $(BIN)/weir-image.tar

# Tests of clusters wait for elections more than they compute: more of them than processors
# run side by side, and more packages while others are compiled. Those that take longest begin first.
# The other modules' tests wait for programs more than they compute: they run side by side.
test: need-go ## Run every test, of the benchmarks' module too, with the long ones at their fewest rounds (all: make soak). A missing program is left out, or with STRICT=1 a failure
	@tools/programs.sh
	$(GO) test -vet=all -timeout 10m -p $(PACKAGES) -parallel $(PARALLEL) ./internal/durable ./cmd/weir ./node ./...
	@$(MAKE) --no-print-directory -j 3 test-netns test-bench test-chart test-browser
	@tools/programs.sh missing

test-netns: need-go
	$(GO) vet -tags netns ./cmd/weir

test-bench: need-go
	cd bench && $(GO) test -vet=all -timeout 10m ./...

test-chart: need-go
	cd deploy/helm/test && $(GO) test -vet=all -timeout 10m ./...

test-browser: need-go
	cd web/browser && $(GO) test -mod=mod -vet=all -run 'TestPages$$|TestReports$$|TestReference$$' -timeout 5m ./...

settings: need-go ## Write docs/settings.md from the settings of weir serve
	$(GO) test ./cmd/weir -run 'TestSettingsPage$$' -count 1 -args -settings.update

snapshot: need-go ## Build the archives and packages of a release in dist/, without publishing
	$(GO) run github.com/goreleaser/goreleaser/v2@$(GORELEASER) release --snapshot --clean --skip=ko,sbom,publish $(ARGS)

docs: build need-docs need-curl ## Build the site of the documentation in bin/site, and check its links
	@tools/docs.sh $(BIN)/weir

docs-serve: need-docs ## Show the site on http://127.0.0.1:5173 and reload it on changes
	cd docs/.vitepress && npx vitepress dev .. --host 127.0.0.1

web: need-npm need-web ## Build the dashboard: web/dist from web/src, to be committed
	cd web && npm run --silent build

web-test: need-go need-chromium need-web ## Run every test of the dashboard in Chromium
	cd web/browser && $(GO) test -mod=mod -vet=all -count 1 -timeout 10m ./...

pictures: build need-chromium need-web ## Draw docs/pictures from a running weir serve --demo, and of docs/benchmarks.md
	cd web/browser && $(GO) test -mod=mod -run 'TestPictures$$' -count 1 -timeout 5m . -args -pictures $(CURDIR)/docs/pictures -weir $(CURDIR)/$(BIN)/weir
	cd bench && $(GO) run ./report -draw

race: need-go need-gcc ## Run every test under the race detector
	$(GO) test -race -timeout 30m ./...

sim: need-go ## Simulate clusters in a world that fails, SEEDS (20000) times, from seed FIRST (0)
	$(GO) test -run 'TestSimulation$$' -count 1 -timeout 12h ./internal/journal/replica -args -sim.seeds $(SEEDS) -sim.first $(FIRST)

sim-regions: need-go ## Simulate regions in a world that fails, SEEDS (20000) times, from seed FIRST (0)
	$(GO) test -run 'TestSimulation$$|TestLinksThatBreakInTurn$$' -count 1 -v -timeout 12h ./internal/region -args -sim.seeds $(SEEDS) -sim.first $(FIRST)

crash: need-go ## Kill a server at random moments, ROUNDS (50) times, and count what is there
	$(GO) test -run 'TestCrash' -count 1 $(VERBOSE) -timeout 30m ./cmd/weir -args -rounds $(ROUNDS)

cluster-crash: need-go ## Kill, stop, cut off, replace and restart nodes of a cluster, each ROUNDS (50) times, and count what is there
	$(GO) test -run 'TestClusterCrash' -count 1 $(VERBOSE) -timeout $$(( $(ROUNDS) * 3 + 10 ))m ./cmd/weir -args -cluster-rounds $(ROUNDS) -cluster-pace 2ms

regions-crash: need-go ## Cut a region off for CUT (60s), kill the node that writes another's digests, and count what is there
	$(GO) test -run 'TestRegionsOfProcesses$$' -count 1 -v -timeout 30m ./cmd/weir -args -regions.cut $(CUT)

regions-size: need-go ## Measure bytes/s on a link of regions for numbers of active keys at 50,000 hits a second, and the lag
	@$(GO) test -run 'TestRegionsSize$$' -count 1 -timeout 30m ./node -args -regions.for 20s -regions.every 1s -regions.keys 1,1000,100000 -regions.out $(CURDIR)/regions-size.md && \
	  cat regions-size.md; rm -f regions-size.md

regions-fleet: need-go ## Simulate 1,000 nodes as 33 cells of 30 in a tree of two levels: traffic of each link, processor's time, freshness
	@$(GO) test -run 'TestFleet$$' -count 1 -timeout 1h ./internal/region -args -fleet.cells 33 -fleet.nodes 30 -fleet.keys 20000 -fleet.hits 1000 -fleet.seconds 10 \
	  -fleet.out $(CURDIR)/regions-fleet.md && cat regions-fleet.md; rm -f regions-fleet.md

cluster-netns: need-go need-iproute2 ## The same in network namespaces, with TLS and packets that are lost, ROUNDS (50) times; needs root, on Linux
	$(GO) test -tags netns -run 'TestClusterNamespaces' -count 1 -v -timeout $$(( $(ROUNDS) * 6 + 10 ))m ./cmd/weir -args -cluster-rounds $(ROUNDS) -cluster-pace 20ms

cluster-ledger: need-go need-iproute2 need-postgres ## An exact ledger of hits, counts and history in SQLite and Postgres, while links flap, nodes are killed and disks fill, LEDGER_ROUNDS (6) times each
	$(GO) test -tags netns -run 'TestClusterLedger' -count 1 -v -timeout $$(( $(LEDGER_ROUNDS) * 30 + 20 ))m ./cmd/weir -args -cluster-rounds $(LEDGER_ROUNDS) -cluster-pace 10ms

cluster-size: need-go ## Measure what NODES (1,3,10,30,100) cost in one process, with KEYS (100000) active ones and HITS (5000) a second on each
	@$(GO) test -run 'TestClusterSize$$' -count 1 -timeout 1h ./internal/durable -args -size.nodes $(NODES) -size.keys $(KEYS) -size.hits $(HITS) \
	  -size.zipf $(ZIPF) -size.servers $(SERVERS) -size.stream 20000 -size.out $(CURDIR)/cluster-size.md && cat cluster-size.md; rm -f cluster-size.md

cluster-lag: need-go ## Measure how long a hit takes to the counts of other nodes, RTT (80ms) between NODES (5)
	@$(GO) test -run 'TestClusterLag$$' -count 1 -timeout 10m ./internal/durable -args -lag.for 60s -lag.rtt $(RTT) -lag.nodes $(if $(filter command line,$(origin NODES)),$(NODES),5) \
	  -lag.flush $(FLUSH) -lag.out $(CURDIR)/cluster-lag.md && cat cluster-lag.md; rm -f cluster-lag.md

sim-leased: need-go ## Simulate the grants of leased limits in a world that fails, LEASED_SEEDS (10000) times, from seed FIRST (0)
	$(GO) test -run 'TestSimulation$$' -count 1 -timeout 12h -v ./internal/cluster/grant -args -sim.seeds $(LEASED_SEEDS) -sim.first $(FIRST)

pods: build ## Run the pods of the Helm chart as processes, through other numbers of nodes, a rolling update and lost volumes; needs root, on Linux
	cd deploy/helm/test && $(GO) test -run 'TestPods' -count 1 -v -timeout 1h . -args -weir $(CURDIR)/$(BIN)/weir

suites: need-go need-redis-server need-npm ## Run the tests of other projects' limiters on Weir and on Redis
	cd bench && $(GO) test -run 'TestSuites$$' -count 1 -v ./listeners -args -suites

soak: need-go ## The long tests: leaks, memory, settings, simulation, kills, clusters under faults, pods; ROUNDS (50) scales all but memory
	$(GO) test -run 'TestSoak$$|TestSmallDisk$$' -count 1 $(VERBOSE) -timeout 6h ./cmd/weir -args -soak.rounds $$(( $(ROUNDS) * 20 ))
	$(GO) test -run 'TestSettings$$|TestFreshOverHTTP' -count 1 -timeout 6h ./cmd/weir -args -settings.seeds $(ROUNDS) -fresh-rounds $$(( $(ROUNDS) * 30 ))
	$(GO) test -run 'TestDamage$$|TestDamageOfOneNode$$|TestFreshReads|TestStartAmongConsumers$$' -count 1 -timeout 6h ./internal/durable -args -damages $$(( $(ROUNDS) * 60 )) -cluster-damages each -consumers 1000 -fresh.rounds $$(( $(ROUNDS) * 30 ))
	$(GO) test -run 'DenyNobody$$|DeniesNobody$$|AllNodes$$' -count 1 -parallel 1 -timeout 1h ./internal/cluster/limits -args -owner.exact
	@bin=$$($(GO) env GOPATH)/bin; if [ -x $$bin/caddy ]; then PATH=$$bin:$$PATH $(GO) test -run 'TestCaddy$$' -count 1 ./cmd/weir; else echo "left out: the recipe of Caddy 2.11 (go install github.com/caddyserver/caddy/v2/cmd/caddy@v2.11.9)"; fi
	$(GO) test -run 'TestNeverOver$$' -count 1 -timeout 6h ./internal/cluster/limits -args -brute.rounds $(ROUNDS)
	$(GO) test -run 'TestCrashTopics$$|TestClusterTopics$$' -count 1 $(VERBOSE) -timeout 6h ./cmd/weir -args -topics.events $$(( $(ROUNDS) * 20000 ))
	$(GO) test -run 'TestFleetOfEnvoys$$' -count 1 -timeout 6h ./internal/server/envoy -args -fleet.seeds $$(( $(ROUNDS) * 4 ))
	$(MAKE) --no-print-directory sim SEEDS=$$(( $(ROUNDS) * 400 )) crash cluster-crash pods
	$(MAKE) --no-print-directory memory MEMORY="64 256"

pages-cost: need-go ## Measure what 200 open pages of the dashboard cost a server, on Linux
	$(GO) test -run 'TestPagesCost$$' -count 1 -v -timeout 10m ./cmd/weir -args -pages 200 -pages.for 20s -pages.most 0.05

memory: build need-curl ## Measure what the process takes at most for some --memory (MEMORY="64 256 1280", in MiB)
	@MEMORY="$(MEMORY)" tools/memory.sh $(BIN)/weir

fuzz: need-go ## Run each fuzz target for FUZZTIME (10m)
	@set -e; for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "== $$pkg $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 2s $$pkg; \
	  done; \
	done

lint: need-go $(LINT) ## Check style with golangci-lint (.golangci.yml says why each linter), and the English of the documentation
	$(GO) test . -run 'TestProse|TestDocumentationLinks$$' -count 1
	$(LINT) run ./...
	cd bench && ../$(LINT) run --config ../.golangci.yml ./...
	cd web/browser && ../../$(LINT) run --config ../../.golangci.yml ./...

$(LINT): tools/go.mod
	@echo "building golangci-lint: some minutes, once"
	$(GO) build -modfile=tools/go.mod -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

size: need-go ## Print the size of the production code as a table (docs/ARCHITECTURE.md)
	@tools/size.sh

fmt: need-go ## Format the code
	gofmt -w $$(git ls-files '*.go')

bench: build need-redis-server ## Measure Weir beside the textbook designs, other limiters and Redis; writes docs/benchmarks.md
	cd bench && $(GO) run ./report -out ../docs/benchmarks.md

bench-journal: build ## Measure the journal; writes docs/benchmarks-journal.md
	cd bench && $(GO) run ./journal -weir ../$(BIN)/weir -page ../docs/benchmarks-journal.md

bench-listeners: build need-redis-server ## Measure the RESP listener beside redis-server, and Envoy's beside grpc-go; writes docs/benchmarks-listeners.md
	cd bench && $(GO) run ./listeners -weir ../$(BIN)/weir -page ../docs/benchmarks-listeners.md

RATELIMIT_VERSION  := v1.4.1-0.20260122083618-3fb702589d36
GUBERNATOR_VERSION := v2.13.0

bench-peers: build need-redis-server ## Ask Redis scripts, envoyproxy/ratelimit, gubernator and Weir for the same decisions, within 15 minutes; writes docs/benchmarks-peers.md
	-GOBIN=$(CURDIR)/$(BIN)/peers $(GO) install github.com/envoyproxy/ratelimit/src/service_cmd@$(RATELIMIT_VERSION)
	-GOBIN=$(CURDIR)/$(BIN)/peers $(GO) install github.com/gubernator-io/gubernator/v2/cmd/gubernator@$(GUBERNATOR_VERSION)
	cd bench && $(GO) run ./peers -weir ../$(BIN)/weir -page ../docs/benchmarks-peers.md -picture ../docs/pictures/peers.svg $(ARGS)

bench-sql: build need-postgres need-mariadb ## Count in SQL as textbooks do and as Weir does, on Postgres, MariaDB and SQLite, within 10 minutes; writes docs/benchmarks-sql.md
	cd bench && $(GO) run ./sql -weir ../$(BIN)/weir -page ../docs/benchmarks-sql.md

bench-history: build ## Print the figures of history: a year of a million keys in SQLite, and what history costs hits
	cd bench && $(GO) run ./sql -weir ../$(BIN)/weir -history $(ARGS)

bench-growth: need-go ## Measure what a hit, a count and a key cost with more keys, goroutines and longer windows; writes docs/benchmarks-growth.md
	cd bench && $(GO) run ./growth -page ../docs/benchmarks-growth.md

textbook: need-go ## Measure the designs of textbooks next to Weir, within two minutes; writes the tables of docs/textbook.md
	cd bench && $(GO) run ./textbook/compare -page ../docs/textbook.md -picture ../docs/pictures/textbook.svg

adversary: need-go ## Search what limiters admit at worst; writes docs/adversary.md
	cd bench && $(GO) run ./adversary -out ../docs/adversary.md

check: export STRICT = 1
check: lint test race ## All that must be green before a change lands

clean: ## Remove what was built
	rm -rf $(BIN)

need-go:
	@command -v $(GO) >/dev/null || { echo "make: Go 1.26 or newer is needed and not on the PATH: install it from https://go.dev/dl" >&2; exit 1; }

# need-X: the program X of tools/programs.sh is there, or is installed, or it is an error.
need-%:
	@tools/programs.sh $*
