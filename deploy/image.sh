#!/bin/sh
# Builds the image with buildah and runs `version` in it.
#   deploy/image.sh <name:tag> <version> <commit> <date>
# Works as root without any container service; BUILDAH_ISOLATION and
# STORAGE_DRIVER are buildah's own variables and win over the defaults here.
set -eu
cd "$(dirname "$0")/.."
image=$1 version=$2 commit=$3 date=$4

if ! command -v buildah >/dev/null; then
	echo "deploy/image.sh: no buildah in PATH (Debian: apt-get install buildah); for another builder see the Dockerfile" >&2
	exit 1
fi
# Root: no namespaces and no overlay file system are needed. Others have their
# own storage, which is left as it is.
if [ "$(id -u)" = 0 ]; then
	export BUILDAH_ISOLATION="${BUILDAH_ISOLATION:-chroot}" STORAGE_DRIVER="${STORAGE_DRIVER:-vfs}"
fi

deploy/image-context.sh
# The commit's time, and not the clock's: two builds of a commit are equal.
stamp=$(git log -1 --format=%ct 2>/dev/null || echo 0)
buildah bud --quiet --timestamp "$stamp" --format oci \
	--build-arg "VERSION=$version" --build-arg "COMMIT=$commit" --build-arg "DATE=$date" \
	--tag "$image" --file Dockerfile dist/image

container=$(buildah from --pull-never "$image")
trap 'buildah rm "$container" >/dev/null' EXIT
buildah run "$container" -- /usr/bin/eosbridge version
echo "built $image"
