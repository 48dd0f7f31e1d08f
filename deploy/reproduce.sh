#!/bin/sh
# Makes the release of the last commit twice, each in a clone and with a build cache of its own, as if on two machines, and
# compares all files.
#   deploy/reproduce.sh <nfpm> <make variable>...
set -eu
cd "$(dirname "$0")/.."
nfpm=$(realpath "$1")
shift
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

one=$work/one another=$work/another/and/deeper

make_in() { # folder, umask, time zone, make variables...
	folder=$1
	(
		umask "$2"
		export TZ="$3" GOCACHE="$folder/cache"
		shift 3
		cd "$folder/eosbridge"
		${MAKE:-make} --no-print-directory release NFPM="$nfpm" "$@" >"$folder/log" 2>&1 || {
			cat "$folder/log"
			exit 1
		}
	)
}
# Both before either is made: the repository may go on meanwhile.
(umask 022 && git clone -q --no-hardlinks . "$one/eosbridge")
(umask 077 && git clone -q --no-hardlinks "$one/eosbridge" "$another/eosbridge")
make_in "$one" 022 UTC "$@"
make_in "$another" 077 Pacific/Auckland "$@"
diff "$one/eosbridge/dist/release/SHA256SUMS" "$another/eosbridge/dist/release/SHA256SUMS" || {
	echo "deploy/reproduce.sh: these files are not equal" >&2
	exit 1
}
cat "$one/eosbridge/dist/release/SHA256SUMS"
echo "$(wc -l <"$one/eosbridge/dist/release/SHA256SUMS") files made twice, equal"
