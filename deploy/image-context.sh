#!/bin/sh
# Lays out dist/image, all that the Dockerfile copies.
#   deploy/image-context.sh <binary for Linux> <version> <date>
set -eu
cd "$(dirname "$0")/.."
binary=$1 version=$2 date=$3

roots=${CA_ROOTS:-/etc/ssl/certs/ca-certificates.crt}
if [ ! -s "$roots" ]; then
	echo "deploy/image-context.sh: no CA roots at $roots: install ca-certificates, or set CA_ROOTS to a PEM file" >&2
	exit 1
fi
rm -rf dist/image
mkdir -p dist/image/tmp
cp "$roots" dist/image/ca-certificates.crt
cp "$binary" dist/image/eosbridge
${GO:-go} run ./deploy/parts -version "$version" -date "$date" -sbom dist/image/eosbridge.cdx.json -licences dist/image/THIRD_PARTY.txt "$binary"
chmod 0755 dist/image/eosbridge
chmod 1777 dist/image/tmp
chmod 0644 dist/image/ca-certificates.crt dist/image/THIRD_PARTY.txt dist/image/eosbridge.cdx.json
