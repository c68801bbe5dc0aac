# The commands of the project. `make run` and `make test` are all that a fresh machine with Go needs. Longer campaigns are
# programs of their own: test/README.md.

GO       ?= go
TOOL     := $(GO) tool -modfile=tools/go.mod
SOURCES   = $(shell find . -name '*.go' -not -path './.*' -not -path '*/testdata/*')
TIMEOUT  ?= 40m
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  := -X main.version=$(VERSION)

# make fuzz TIME=5m            time for each fuzz target; RUN=record/FuzzSplit: only those that match
# make bench RUN=read          rows that match; PICTURE=bin/performance.svg: draws throughput over workers and sizes too
# make lint VULNDB=file:///dir a copy of the database of known holes, where vuln.go.dev is out of reach
RUN      ?=
TIME     ?= 30s
SHORT    ?= -short
VULNDB   ?=

# Packages whose tests start processes, clients and machines: make test runs them, make check runs OTHERS,
# which filters a list of packages.
CAMPAIGNS := examples $(addprefix test/,answers campaign cmd console failover faultproxy interop pressure sdk testenv torture)
OTHERS    := grep -vE '/($(subst $() ,|,$(CAMPAIGNS)))(/|$$)'

# Packages whose tests take longest, or in make check wait longest, start first. Test programs without
# debug data are linked in half the time.
LONGEST   := ./test/torture ./test/sim ./internal/protocols/httpapi ./cmd/seb ./test/mutants ./internal/operate/server ./internal/operate/node ./internal/operate/fsck
WAITING   := $(addprefix ./internal/,protocols/httpapi protocols/kafka operate/server engine/broker) ./cmd/seb $(addprefix ./internal/,operate/node triggers/rules operate/fsck) ./test/sim ./test/tidy
GOTEST    := $(GO) test -vet=off -ldflags='-s -w'

.PHONY: help run build test test-pressure test-bench test-packaging test-migrate check lint fmt race fuzz bench console release s3server vet

help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

run: build ## build and start a broker: records in ./seb-bucket, the rest in ./seb-data
	./bin/seb serve

# The flags are those of go run and go test, so that they find the packages in the cache. Releases also trim paths.
build: ## ./bin/seb and ./bin/seb-migrate
	@[ -x bin/seb ] || echo 'building ./bin/seb: the first time takes 2 to 4 minutes'
	$(GO) build $(if $(wildcard bin/seb),,-v) -ldflags '$(LDFLAGS)' -o bin/seb ./cmd/seb
	$(GO) build -C migrate -ldflags '$(LDFLAGS)' -o ../bin/seb-migrate ./cmd/seb-migrate

test: s3server vet ## every test, the S3 server included
	GOGC=400 $(GOTEST) -p 3 -parallel 3 -timeout $(TIMEOUT) $(LONGEST) $$($(GO) list ./... | grep -v /test/pressure$$)  # many tests wait
	$(MAKE) -j3 test-pressure test-bench test-packaging test-migrate  # at the same time

test-pressure:
	$(GOTEST) -parallel 12 -timeout $(TIMEOUT) ./test/pressure  # with the GOGC of users: it measures memory to the MiB

test-bench:
	cd bench && GOGC=400 $(GOTEST) -p 4 -parallel 8 -timeout $(TIMEOUT) ./...

test-migrate:
	cd migrate && GOGC=400 $(GOTEST) -timeout $(TIMEOUT) ./...

test-packaging:
	cd packaging && $(GOTEST) ./...  # licences of all modules; SBOM and files of a small release
	$(GO) test -tags failpoints ./internal/engine/base/failpoint

# Code without debug data and without cgo, like the released program, is compiled and linked faster.
# Large packages of which tests need little CPU time are not optimised. go vet needs the same flags:
# with others it compiles again.
PLAIN   := . ./client ./cmd/seb ./test/golden $(addprefix ./internal/engine/,broker cluster cluster/link views/snapshot log log/compact) \
           $(addprefix ./internal/triggers/,delivery delivery/webhook rules) $(addprefix ./internal/operate/,fsck node server) \
           $(addprefix ./internal/protocols/,auth httpapi httpapi/httpconn kafka riemann riemann/index)
CHECKED := -gcflags='./...=-dwarf=false' $(foreach p,$(PLAIN),-gcflags='$(p)=-dwarf=false -N -l')
# Compilers, linkers and go vet are faster without garbage collections. Each may use 1 GiB before it collects.
# The tests run with GOGC=400 and without that limit.
check: export CGO_ENABLED = 0
check: export GOGC = off
check: export GOMEMLIMIT = 1GiB
check: ## vet, house rules and the short tests of the main module, without the S3 server
	$(GOTEST) $(CHECKED) -exec 'env -u GOMEMLIMIT GOGC=400' -vet=all -p 6 -parallel 8 -short \
	  $$($(GO) list $(WAITING) ./... | $(OTHERS))  # many tests wait
	$(GO) vet $(CHECKED) $(patsubst %,./%/...,$(CAMPAIGNS))  # go test has vetted the others

lint: vet ## format, vet, staticcheck, workflows, known holes, and the same code for linux/arm64
	@out=$$($(TOOL) gofumpt -l -modpath github.com/sebbroker/seb -lang go1.26 $(SOURCES)); \
	  if [ -n "$$out" ]; then echo "not formatted (make fmt):"; echo "$$out"; exit 1; fi
	$(TOOL) staticcheck ./...
	$(TOOL) actionlint -shellcheck= -pyflakes= .github/workflows/*.yml
	cd bench && $(GO) tool -modfile=../tools/go.mod staticcheck ./...
	cd migrate && $(GO) tool -modfile=../tools/go.mod staticcheck ./...
	cd packaging && $(GO) vet ./... && $(GO) tool -modfile=../tools/go.mod staticcheck ./...
	$(GO) vet -tags failpoints ./cmd/seb ./internal/engine/base/failpoint
	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 $(GO) build ./...
	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 $(GO) vet ./...
	cd bench && GOOS=linux GOARCH=arm64 CGO_ENABLED=0 $(GO) vet ./...
	cd migrate && GOOS=linux GOARCH=arm64 CGO_ENABLED=0 $(GO) vet ./...
	@TOOL='$(TOOL)' VULNDB='$(VULNDB)' tools/vuln ./...
	@cd bench && TOOL='$(GO) tool -modfile=../tools/go.mod' VULNDB='$(VULNDB)' ../tools/vuln ./...
	@cd migrate && TOOL='$(GO) tool -modfile=../tools/go.mod' VULNDB='$(VULNDB)' ../tools/vuln ./...

fmt: ## format in place
	$(TOOL) gofumpt -w -modpath github.com/sebbroker/seb -lang go1.26 $(SOURCES)

race: s3server ## the short tests under the race detector; SHORT= runs all, in hours
	$(GO) test -race $(SHORT) -timeout 180m ./...

fuzz: ## every fuzz target for TIME; RUN= only those that match
	@grep -rHoE --exclude-dir='.?*' --include='*_test.go' '^func Fuzz[A-Za-z0-9]+' . | sed -E 's|^\./((.*)/)?[^/]*:func (.*)|\2 \3|' | sort | while read -r dir name; do \
	  case "$$dir/$$name" in *$(RUN)*) echo "== $$dir/$$name"; \
	    (cd "$$dir" && $(GO) test . -run '^$$' -fuzz "^$$name\$$" -fuzztime $(TIME)) || exit 1;; esac; done

bench: ## the tables of docs/reports/performance.md, Seb beside a bare HTTP server; RUN= only rows that match; half an hour
	cd bench && $(GO) run ./cmd/perf $(if $(RUN),-run '$(RUN)') $(if $(PICTURE),-picture '$(PICTURE)')

# The bundle of the web console. BUNDLE= writes it elsewhere, to compare it.
BUNDLE ?= internal/protocols/console/dist
ALIAS   = $(foreach m,preact=preact preact/hooks=hooks uplot=uplot,\
          --alias:$(firstword $(subst =, ,$(m)))=./internal/protocols/console/thirdparty/$(lastword $(subst =, ,$(m))).mjs)
ESBUILD = $(TOOL) esbuild --bundle --minify --format=esm --target=es2022 --charset=utf8 --legal-comments=none --log-level=warning --entry-names=[name] $(ALIAS) --outdir='$(BUNDLE)'
UI      = internal/protocols/console/ui
console: ## bundle the web console from internal/protocols/console/ui into internal/protocols/console/dist
	@rm -rf '$(BUNDLE)'
	$(ESBUILD) $(UI)/app.tsx --splitting --chunk-names=[name] --jsx=transform --jsx-factory=jsxElement --jsx-fragment=jsxFragment --inject:./$(UI)/jsx.ts '--external:./charts.js'
	$(ESBUILD) $(UI)/tail.ts $(UI)/charts.ts $(UI)/app.css $(UI)/index.html $(UI)/seb.svg internal/protocols/console/thirdparty/licenses.txt --loader:.html=copy --loader:.svg=copy --loader:.txt=copy
	@gzip -9n '$(BUNDLE)'/*

release: ## archives, deb packages, container image, SBOM and checksums of VERSION=0.1.0 in dist/
	cd packaging && $(GO) run . -version '$(VERSION)'

# The real S3 server of the tests, built once into .cache.
s3server:
	$(GO) run ./test/cmd/s3server

vet:
	$(GO) vet ./...
	cd bench && $(GO) vet ./...
	cd migrate && $(GO) vet ./...
