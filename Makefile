# The commands of the project. `make run` and `make test` are all that a fresh machine with Go needs.

GO       ?= go
TOOL     := $(GO) tool -modfile=tools/go.mod
SOURCES   = $(shell find . -name '*.go' -not -path './.*' -not -path '*/testdata/*')
TIMEOUT  ?= 40m
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  := -X main.version=$(VERSION)

# make fuzz TIME=5m            time for each fuzz target
# make sim SEED=17, TIME=1h    one seed with its trace (SHRINK=1: made small first), or fresh seeds for so long (SHARE=1: months with
#                              triggers only); make losses TIME=11m, make clocks TIME=10m: fresh seeds with losses, with wrong clocks
# make torture TIME=10m        fresh seeds for so long; KILLS=10000: until so many brokers were killed; SEED=17: one run
# make openapi TIME=10m        how long requests are derived from the description
# make memory TIME=1h          how long clients come and go; CLIENTS=2000: how many push at once
# make soak LIFE=25m           how long the load of the soak goes on
# make bench RUN=read           rows that match; PICTURE=bin/performance.svg: draws throughput over workers and sizes too
# make lint VULNDB=file:///dir a copy of the database of known holes, where vuln.go.dev is out of reach
# make example USERS=1000 DAY=1s S3=1   of the onboarding mails; S3=1: on the S3 server
# make microbench BENCH=Produce PKG=./internal/broker
SEED     ?=
RUN      ?=
TIME     ?= 30s
KILLS    ?=
LIFE     ?= 25m
CLIENTS  ?= 2000
BENCH    ?= .
PKG      ?= ./...
VULNDB   ?=
COUNT    ?= 6
USERS    ?= 10000
DAY      ?= 2.5s

.PHONY: help build test vet lint fmt race fuzz cacheimages sim losses clocks mutants cost costs torture soak memory bench microbench run s3server example

help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

build: ## ./bin/seb
	@[ -x bin/seb ] || echo 'building ./bin/seb: the first time takes 2 to 4 minutes'
	$(GO) build $(if $(wildcard bin/seb),,-v) -trimpath -ldflags '$(LDFLAGS)' -o bin/seb ./cmd/seb

# Results name the commit, whatever GOFLAGS say; where git does not work there is none.
STAMP     = $(shell git rev-parse HEAD >/dev/null 2>&1 && echo -buildvcs=auto)

.PHONY: seb-bench
seb-bench: ## ./bin/seb-bench, which seb bench runs: the latency of Seb and other brokers
	cd bench && $(GO) build -trimpath $(STAMP) -ldflags '$(LDFLAGS)' -o ../bin/seb-bench ./cmd/seb-bench

run: build ## build and start a broker: records in ./seb-bucket, the rest in ./seb-data
	./bin/seb serve

s3server: ## the real S3 server of the tests, built once into .cache
	$(GO) run ./test/cmd/s3server

vet:
	$(GO) vet ./...
	cd bench && $(GO) vet ./...

test: s3server vet ## every test, the S3 server included
	$(GO) test -timeout $(TIMEOUT) $$($(GO) list ./... | grep -v /test/pressure$$)
	$(GO) test -timeout $(TIMEOUT) ./test/pressure  # by itself: it measures memory to the MiB
	$(GO) test -tags failpoints ./internal/failpoint
	cd bench && $(GO) test -timeout $(TIMEOUT) ./...

race: s3server ## every test under the race detector
	$(GO) test -race -timeout 90m ./...

lint: vet ## format, vet, staticcheck, known holes, and the same code for linux/arm64
	@out=$$($(TOOL) gofumpt -l -modpath github.com/sebbroker/seb -lang go1.26 $(SOURCES)); \
	  if [ -n "$$out" ]; then echo "not formatted (make fmt):"; echo "$$out"; exit 1; fi
	$(TOOL) staticcheck ./...
	cd bench && $(GO) tool -modfile=../tools/go.mod staticcheck ./...
	$(GO) vet -tags failpoints ./cmd/seb ./internal/failpoint
	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 $(GO) build ./...
	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 $(GO) vet ./...
	cd bench && GOOS=linux GOARCH=arm64 CGO_ENABLED=0 $(GO) vet ./...
	@TOOL='$(TOOL)' VULNDB='$(VULNDB)' tools/vuln ./...
	@cd bench && TOOL='$(GO) tool -modfile=../tools/go.mod' VULNDB='$(VULNDB)' ../tools/vuln ./...

fmt: ## format in place
	$(TOOL) gofumpt -w -modpath github.com/sebbroker/seb -lang go1.26 $(SOURCES)

fuzz: ## every fuzz target for TIME; RUN= only those that match, as in RUN=record/FuzzSplit
	@grep -rHoE --exclude-dir='.?*' --include='*_test.go' '^func Fuzz[A-Za-z0-9]+' . | sed -E 's|^\./((.*)/)?[^/]*:func (.*)|\2 \3|' | sort | while read -r dir name; do \
	  case "$$dir/$$name" in *$(RUN)*) echo "== $$dir/$$name"; \
	    (cd "$$dir" && $(GO) test . -run '^$$' -fuzz "^$$name\$$" -fuzztime $(TIME)) || exit 1;; esac; done

cacheimages: ## every image of the cache folder, the data folder and a bucket in a folder that a crash can leave
	$(GO) test ./internal/objstore/cache ./internal/node ./internal/objstore -run 'Images|TornWrites|DataFolders|PowerFailures' -count=1 -v -timeout 0 -images

sim: ## the simulator: SEED= repeats one seed with its trace, else new seeds for TIME
	$(GO) test ./test/sim -run '^TestSeeds$$' -count=1 -v -timeout 0 $(if $(SEED),-seed=$(SEED) $(if $(SHRINK),-shrink),-simtime=$(TIME) $(if $(SHARE),-share=$(SHARE)))

losses: ## every object of a bucket lost, and every pair; the simulator for TIME with losses and older copies; 10,000 starts side by side
	$(GO) test ./internal/fsck -run '^TestLostObjects$$' -count=1 -v -timeout 0 -pairs
	$(GO) test ./test/sim -run '^TestLosses$$' -count=1 -v -timeout 0 -simtime=$(TIME)
	$(GO) test ./test/sim -run '^TestStarts$$' -count=1 -v -timeout 0 -starts=10000

clocks: ## the simulator for TIME with clocks that are wrong, in folders and on stores that tell the time
	$(GO) test ./test/sim -run '^TestClocks$$' -count=1 -v -timeout 0 -simtime=$(TIME)

mutants: ## the tests of the tests: every mutant must be found; two minutes
	$(GO) test ./test/mutants -run '^TestMutants$$' -count=1 -v -timeout 0

cost: s3server ## requests counted at the store's side, over minutes
	$(GO) test ./test/torture -run 'TestIdle|TestPuts' -count=1 -v -timeout 0 -idle 10m -write 1m -batch-wait 1s

costs: s3server ## the table of docs/costs.md, 100 minutes: requests of brokers side by side, with all that goes on in the background
	$(GO) test ./test/torture -run '^TestCosts$$' -count=1 -v -timeout 0 -costs-warm 40m -costs-measure 1h

example: build $(if $(S3),s3server) ## the worked example of docs/onboarding.md: 10,000 users, a month in 75 seconds, kills; two minutes
	$(GO) run ./test/onboarding -seb bin/seb -users $(USERS) -day $(DAY) $(if $(S3),-s3)

soak: s3server ## an hour of a broker's life in LIFE, with kills, on the real S3 server; starts with 1,000 packs; half an hour
	$(GO) test ./test/soak -count=1 -v -timeout 0 -args -long -life $(LIFE)

torture: s3server ## real brokers killed, stopped and cut off, on disk and on S3, and their history judged
	$(GO) test ./test/torture/campaign -run '^TestTorture$$' -count=1 -v -timeout 0 $(if $(SEED),-seed=$(SEED)) $(if $(KILLS),-kills=$(KILLS)) \
	  $(if $(or $(filter-out file,$(origin TIME)),$(if $(SEED)$(KILLS),,yes)),-time=$(TIME))

memory: TIME = 10m
memory: s3server ## a broker with 64 MiB: thousands of clients, a store that is late, clients that come and go for TIME
	$(GO) test ./test/pressure -count=1 -v -timeout 0 -clients $(CLIENTS) -push 3m -store-delay 10s -idle 5000 -churn $(TIME)

bench: ## Seb beside a bare HTTP server, in turns; RUN= only rows that match; half an hour
	@mkdir -p bin
	$(GO) -C bench build -o ../bin/perf ./cmd/perf
	bin/perf -version $(VERSION) $(if $(RUN),-run '$(RUN)') $(if $(PICTURE),-picture '$(PICTURE)')

# make bench-peers              docs/latency.md; its runs are as long as BUDGET=50m allows, or DURATION=20s
#                               REPEATS=3; ONLY=kafka,seb RUNS=a,d PARTS=runs,batch-wait,follower,loops: some of it; FRESH=1: again
#                               LONG=1: 10 minutes each; REPORT=1: only writes what is there; FIFO=1: the generator has real-time priority
DURATION ?=
REPEATS  ?=
BUDGET   ?=
ONLY     ?=
RUNS     ?=
PARTS    ?=
LONG     ?=
FRESH    ?=
REPORT   ?=
FIFO     ?= 0

.PHONY: bench-peers
bench-peers: seb-bench ## Seb beside Kafka, NATS, RabbitMQ and Redis, which it fetches: writes docs/latency.md; goes on where it was cut off
	@first=; if [ '$(FIFO)' = 1 ] && [ "$$(nproc)" -gt 1 ] && chrt -f 1 true 2>/dev/null; then first='chrt -f 1'; fi; \
	  $$first bin/seb-bench campaign $(if $(DURATION),--duration '$(DURATION)') $(if $(REPEATS),--repeats '$(REPEATS)') \
	  $(if $(BUDGET),--budget '$(BUDGET)') $(if $(ONLY),--only '$(ONLY)') $(if $(RUNS),--runs '$(RUNS)') $(if $(PARTS),--parts '$(PARTS)') \
	  $(if $(LONG),--long) $(if $(FRESH),--fresh) $(if $(REPORT),--report)

.PHONY: bench-peers-test
bench-peers-test: ## every driver of the latency bench on a real broker of its own; fetches Redis, RabbitMQ, NATS and Kafka at first
	cd bench && SEB_BENCH_PEERS=1 $(GO) test -p 1 -count=1 -timeout $(TIMEOUT) ./drivers/... ./peers/...

.PHONY: interop
interop: ## Kafka clients of other languages against brokers that are killed; RUN= only tests that match; fetches the clients at first
	cd test/interop && SEB_INTEROP=1 $(GO) test -timeout $(TIMEOUT) $(if $(RUN),-run '$(RUN)')
	cd test/interop/differential && SEB_INTEROP=1 $(GO) test -count=1 -v -timeout $(TIMEOUT) $(if $(RUN),-run '$(RUN)')
	cd test/interop/java && SEB_INTEROP=1 $(GO) test -timeout $(TIMEOUT) $(if $(RUN),-run '$(RUN)')

.PHONY: openapi
openapi: TIME = 1m
openapi: ## openapi.yaml: linted, fuzzed for TIME, and clients generated from it in TypeScript, Python and Go; fetches the tools at first
	cd test/interop/openapi && SEB_INTEROP=1 SEB_OPENAPI_TIME=$(TIME) $(GO) test -count=1 -timeout 0

microbench: ## Go benchmarks into bin/bench.txt, compared with bin/bench-old.txt if it is there
	@mkdir -p bin
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count=$(COUNT) -timeout 0 $(PKG) >bin/bench.txt \
	  || { cat bin/bench.txt; exit 1; }
	$(TOOL) benchstat $$(ls bin/bench-old.txt 2>/dev/null) bin/bench.txt

.PHONY: kafka-speed
kafka-speed: build seb-bench ## Kafka's perf tools on Kafka and on Seb, in turns; ROUNDS=3; five minutes on a quiet machine
	$(GO) -C bench build -o ../bin/kafkaperf ./cmd/kafkaperf
	bin/kafkaperf -version $(VERSION) $(if $(ROUNDS),-rounds $(ROUNDS)) $(SPEED)
