#!/bin/sh
# Builds the image with buildah, holds it to its size, and starts it if it is for this machine's architecture.
#   deploy/image.sh <name:tag> <version> <commit> <date> <amd64|arm64>
# Works as root without any container service; BUILDAH_ISOLATION and
# STORAGE_DRIVER are buildah's own variables and win over the defaults here.
set -eu
cd "$(dirname "$0")/.."
image=$1 version=$2 commit=$3 date=$4 arch=$5

if ! command -v buildah >/dev/null; then
	echo "deploy/image.sh: no buildah in PATH (Debian: apt-get install buildah); for another builder see the Dockerfile" >&2
	exit 1
fi
# Root: no namespaces and no overlay file system are needed. Others have their
# own storage, which is left as it is.
if [ "$(id -u)" = 0 ]; then
	export BUILDAH_ISOLATION="${BUILDAH_ISOLATION:-chroot}" STORAGE_DRIVER="${STORAGE_DRIVER:-vfs}"
fi

deploy/image-context.sh "dist/linux_$arch/eosbridge" "$version" "$date"
# Docker's format, which has a place for HEALTHCHECK. The commit's time, and not the clock's: two builds of a commit are equal.
stamp=$(git log -1 --format=%ct 2>/dev/null || echo 0)
buildah bud --quiet --timestamp "$stamp" --format docker --arch "$arch" \
	--build-arg "VERSION=$version" --build-arg "COMMIT=$commit" --build-arg "DATE=$date" \
	--tag "$image" --file Dockerfile dist/image

# What is pulled and stored, the layers compressed, and what lies on a disk. A little more than there is, so that growth is seen:
# who adds something large raises them, and docs/install.md.
packed_limit=11000000 limit=29300000
packed=$(tar -C dist/image -cf - . | gzip -9 | wc -c)
size=$(find dist/image -type f -exec cat {} + | wc -c)
echo "image $image: $packed bytes compressed, $size unpacked, $(wc -c <dist/image/eosbridge) of those in the binary"
if [ "$packed" -gt "$packed_limit" ] || [ "$size" -gt "$limit" ]; then
	echo "deploy/image.sh: larger than $packed_limit bytes compressed or $limit unpacked" >&2
	exit 1
fi

if [ "$arch" != "$(${GO:-go} env GOHOSTARCH)" ]; then
	echo "built $image for $arch; not started on this machine"
	exit
fi
container=$(buildah from --pull-never "$image")
trap 'buildah rm "$container" >/dev/null' EXIT
buildah run "$container" -- /usr/bin/eosbridge version
# Started without settings it ends with the status that is not restarted. What it says is asked of the binary alone, by the
# tests of package cli: of a process that ends at once buildah may lose the output.
status=0
buildah run "$container" -- /usr/bin/eosbridge run || status=$?
if [ "$status" != 78 ]; then
	echo "deploy/image.sh: without settings it ended with status $status, want 78" >&2
	exit 1
fi
echo "built $image"
