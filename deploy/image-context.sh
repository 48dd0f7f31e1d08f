#!/bin/sh
# Lays out dist/image, all that the Dockerfile copies.
set -eu
cd "$(dirname "$0")/.."

roots=${CA_ROOTS:-/etc/ssl/certs/ca-certificates.crt}
if [ ! -s "$roots" ]; then
	echo "deploy/image-context.sh: no CA roots at $roots: install ca-certificates, or set CA_ROOTS to a PEM file" >&2
	exit 1
fi
rm -rf dist/image
mkdir -p dist/image/tmp
cp "$roots" dist/image/ca-certificates.crt
cp bin/eosbridge dist/image/eosbridge
chmod 0755 dist/image/eosbridge
chmod 1777 dist/image/tmp
chmod 0644 dist/image/ca-certificates.crt
