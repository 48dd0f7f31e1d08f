#!/bin/sh
# Lays out dist/stage for archives and packages: bin/ has the binary, doc/ all else.
#   deploy/stage.sh <binary> <version> <date> <file for the SBOM>
set -eu
cd "$(dirname "$0")/.."
binary=$1 version=$2 date=$3 sbom=$4

rm -rf dist/stage
mkdir -p dist/stage/bin dist/stage/doc/deploy
cp "$binary" dist/stage/bin/eosbridge
cp README.md CHANGELOG.md dist/stage/doc/
if [ -e LICENSE ]; then cp LICENSE dist/stage/doc/; fi
cp -R docs dist/stage/doc/docs
cp deploy/eosbridge.env.example deploy/eosbridge.service deploy/eosbridge@.service deploy/wasm.conf dist/stage/doc/deploy/
cp -R deploy/prometheus deploy/grafana deploy/kubernetes dist/stage/doc/deploy/
mkdir dist/stage/doc/deploy/helm
cp -R deploy/helm/eosbridge dist/stage/doc/deploy/helm/

${GO:-go} run ./deploy/parts -version "$version" -date "$date" -sbom "$sbom" -licences dist/stage/doc/THIRD_PARTY.txt "$binary"

# Nothing of this machine: neither its umask nor its clock.
chmod -R u=rwX,go=rX dist/stage
chmod 0755 dist/stage/bin/eosbridge
find dist/stage -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
