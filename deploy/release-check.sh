#!/bin/sh
# What is tried of a release at each change: the binary of this machine's platform is built once more, in another folder and
# with another umask and time zone, and has to be equal; its packages are installed, upgraded and removed.
#   deploy/release-check.sh <nfpm> <version> <date>
# deploy/reproduce.sh does it all, from nothing.
set -eu
cd "$(dirname "$0")/.."
nfpm=$1 version=$2 date=$3
binary=$PWD/dist/linux_$(${GO:-go} env GOHOSTARCH)/eosbridge # of make image

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git ls-files -z --cached --others --exclude-standard -- '*.go' go.mod go.sum Makefile '*.css' '*.js' | tar --null --files-from=- -cf - | (umask 077 && tar -C "$work" --no-same-permissions -xf -)
(
	umask 077
	cd "$work"
	TZ=Pacific/Auckland GOOS=linux ${MAKE:-make} --no-print-directory build OUT=eosbridge
)
cmp "$binary" "$work/eosbridge" || {
	echo "deploy/release-check.sh: the same source gives another binary in another folder" >&2
	exit 1
}
echo "binary: built twice, equal"
deploy/package/check.sh "$nfpm" "$binary" "$version" "$date"
