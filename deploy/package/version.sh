#!/bin/sh
# Prints how a version is called in packages. dpkg and rpm order these alike: "~" stands for before, "+" for after.
#   deploy/package/version.sh <version, as git describe says it> <seconds since 1970 of the commit>
set -eu
case "$1" in
v[0-9]*.[0-9]*.[0-9]*) # v1.2.0-rc.1, v1.2.0, v1.2.0-4-g1a2b3c4 (four commits later), each perhaps -dirty
	echo "${1#v}" | sed -E 's/-dirty$/+dirty/; s/-([0-9]+)-g([0-9a-f]+)/+\1.g\2/; s/-/~/; s/-/./g'
	;;
*) # a commit without any release before it: older than all of them
	echo "0~$(date -u -d "@$2" +%Y%m%d%H%M%S).$(echo "$1" | tr -c 'A-Za-z0-9\n' .)"
	;;
esac
