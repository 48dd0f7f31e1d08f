#!/bin/sh
# Before the files go. dpkg calls it with "remove" or "upgrade", rpm with 0 at the removal and 1 at an upgrade.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;; # the new version's postinst restarts what runs
esac
command -v systemctl >/dev/null || exit 0
if [ -d /run/systemd/system ]; then
	# In order: each commits its last epoch first.
	systemctl stop eosbridge.service 'eosbridge@*.service' || true
fi
# The template's name stands for all of its instances.
systemctl --no-reload disable eosbridge.service eosbridge@.service || true
