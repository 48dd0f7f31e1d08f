#!/bin/sh
# After the files are in place. dpkg calls it with "configure" and the version before, if there was one; rpm with 1 at the
# first installation and 2 at an upgrade.
set -e
# No systemd: a container or an image in the making.
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload

# A new one is not started: its settings are still those of the example. Those that run go on with the new binary; nobody
# waits for them here, since a bridge is ready only when its brokers are.
case "$1 $2" in
"configure "?* | "2 "*)
	systemctl --no-block try-restart eosbridge.service 'eosbridge@*.service' || true
	;;
esac
