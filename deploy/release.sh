#!/bin/sh
# Makes a release of the last commit in dist/release: for each platform an archive and its SBOM, for Linux a deb and an rpm
# too, and SHA256SUMS of all. The same commit gives the same files (deploy/reproduce.sh).
#   deploy/release.sh <nfpm> <version> <date> <os/arch>...
# SOURCE_DATE_EPOCH is the time of all files in it.
set -eu
cd "$(dirname "$0")/.."
nfpm=$1 version=$2 date=$3
shift 3

changed=$(git status --porcelain)
if [ -n "$changed" ]; then
	printf 'deploy/release.sh: a release is made of a commit, and these files are not in one:\n%s\n' "$changed" >&2
	exit 1
fi
out=dist/release
rm -rf "$out"
mkdir -p "$out"
for platform in "$@"; do
	os=${platform%/*} arch=${platform#*/}
	name=eosbridge_${version}_${os}_$arch
	binary=dist/${os}_$arch/eosbridge
	GOOS=$os GOARCH=$arch ${MAKE:-make} --no-print-directory build OUT="$binary"
	deploy/stage.sh "$binary" "$version" "$date" "$out/$name.cdx.json"
	# GNU tar, and gzip without the name and the time of what it packs.
	tar -C dist/stage --sort=name --format=gnu --owner=0 --group=0 --numeric-owner \
		--transform="s|^bin|$name|;s|^doc|$name|" -cf - bin/eosbridge doc | gzip -9n >"$out/$name.tar.gz"
	if [ "$os" = linux ]; then deploy/package.sh "$nfpm" "$version" "$arch" "$out" >/dev/null; fi
	rm -rf dist/stage
done
(cd "$out" && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)
