#!/bin/sh
# Makes a deb and an rpm of what deploy/stage.sh has laid out.
#   deploy/package.sh <nfpm> <version> <amd64|arm64> <folder>
# SOURCE_DATE_EPOCH is the time of all files in it. Prints the names of the two.
set -eu
cd "$(dirname "$0")/.."
nfpm=$1 version=$2 arch=$3 out=$4

package=$(deploy/package/version.sh "$version" "$SOURCE_DATE_EPOCH")
case "$arch" in
amd64) rpm_arch=x86_64 ;;
arm64) rpm_arch=aarch64 ;;
*)
	echo "deploy/package.sh: no name for the architecture $arch in an rpm: add it" >&2
	exit 1
	;;
esac

export PACKAGE_VERSION="$package" PACKAGE_ARCH="$arch" SOURCE_DATE_EPOCH
for target in "$out/eosbridge_${package}_$arch.deb" "$out/eosbridge-$package.$rpm_arch.rpm"; do
	"$nfpm" package --config deploy/package/nfpm.yaml --packager "${target##*.}" --target "$target" >/dev/null
	echo "$target"
done
