#!/bin/sh
# Verifies the systemd unit without running it: no systemd as PID 1 is needed.
set -eu
cd "$(dirname "$0")"

if ! command -v systemd-analyze >/dev/null; then
	echo "deploy/check.sh: no systemd-analyze here (Debian: apt-get install systemd): unit not verified"
	exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# verify wants the program to exist; the one it will start is not installed here.
sed 's|^ExecStart=/usr/bin/eosbridge|ExecStart=/bin/true|' eosbridge.service >"$work/eosbridge.service"
said=$(systemd-analyze verify --man=no --recursive-errors=no "$work/eosbridge.service" 2>&1) || {
	echo "$said"
	exit 1
}
if [ -n "$said" ]; then # a misspelt directive is only a warning to systemd
	echo "$said"
	exit 1
fi
# The same with the drop-in for WebAssembly, which gives one protection up.
mkdir "$work/with" "$work/with/eosbridge.service.d"
cp "$work/eosbridge.service" "$work/with/"
cp wasm.conf "$work/with/eosbridge.service.d/"
said=$(systemd-analyze verify --man=no --recursive-errors=no "$work/with/eosbridge.service" 2>&1) && [ -z "$said" ] || {
	echo "with wasm.conf: $said"
	exit 1
}
# Tenths: 15 is an exposure of 1.5. An unhardened unit has 9.6.
systemd-analyze security --offline=true --threshold=15 "$work/eosbridge.service" >"$work/report" || {
	cat "$work/report"
	exit 1
}
tail -n 1 "$work/report"
