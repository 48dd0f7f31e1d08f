#!/bin/sh
# Verifies the systemd units without running them: no systemd as PID 1 is needed.
set -eu
cd "$(dirname "$0")"

if ! command -v systemd-analyze >/dev/null; then
	echo "deploy/check.sh: no systemd-analyze here (Debian: apt-get install systemd): units not verified"
	[ "${CI:-}" != true ]
	exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A misspelt directive is only a warning to systemd: whatever is said is a failure.
verify() { # what, unit
	said=$(systemd-analyze verify --man=no --recursive-errors=no "$2" 2>&1) && [ -z "$said" ] || {
		echo "$1: $said"
		exit 1
	}
}

for unit in eosbridge.service eosbridge@.service; do
	name=$(echo "$unit" | sed 's|@|@orders|') # a template is verified as one of its instances
	# verify wants the program to exist; the one it will start is not installed here.
	sed 's|=/usr/bin/eosbridge|=/bin/true|' "$unit" >"$work/$name"
	verify "$unit" "$work/$name"
	# The same with the drop-in for WebAssembly, which gives one protection up.
	mkdir -p "$work/with/$name.d"
	cp "$work/$name" "$work/with/"
	cp wasm.conf "$work/with/$name.d/"
	verify "$unit with wasm.conf" "$work/with/$name"
	# Tenths: 15 is an exposure of 1.5. An unhardened unit has 9.6.
	systemd-analyze security --offline=true --threshold=15 "$work/$name" >"$work/report" || {
		cat "$work/report"
		exit 1
	}
	tail -n 1 "$work/report"
done
