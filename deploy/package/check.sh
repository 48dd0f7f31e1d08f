#!/bin/sh
# Makes the packages of a binary, and installs, upgrades and removes them with the real dpkg and rpm, below a folder that
# is thrown away afterwards: of this machine nothing changes. systemctl there is a stand-in that writes down how it is called.
#   deploy/package/check.sh <nfpm> <binary> <version> <date>
# SOURCE_DATE_EPOCH is the time of all files in the packages.
set -eu
cd "$(dirname "$0")/../.."
nfpm=$1 binary=$2 version=$3 date=$4

missing=
[ "$(id -u)" = 0 ] || missing="root, for chroot"
for program in dpkg rpm; do
	command -v "$program" >/dev/null || missing="${missing:+$missing; }$program"
done
if [ -n "$missing" ]; then
	echo "deploy/package/check.sh: packages not tried, missing: $missing"
	[ "${CI:-}" != true ]
	exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

fail() {
	echo "deploy/package/check.sh: $kind: $*" >&2
	exit 1
}

# A file system with a shell, which the scripts need, and a systemd that seems to run.
begin() {
	rm -rf "$root"
	mkdir -p "$root/bin" "$root/dev" "$root/run/systemd/system" "$root/tmp" \
		"$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/var/lib/rpm"
	touch "$root/var/lib/dpkg/status" "$root/var/lib/dpkg/available" "$root/dev/null" # a file: to make a device takes more than root
	for folder in etc usr/bin usr/lib/systemd/system usr/share/doc; do
		mkdir -p "$root/$folder"
		touch "$root/$folder/other" # an empty folder would go with the package
	done
	cp -L /bin/sh "$root/bin/sh"
	for library in $(ldd /bin/sh | grep -o '/[^ ]*'); do
		mkdir -p "$root$(dirname "$library")"
		cp -L "$library" "$root$library"
	done
	printf '#!/bin/sh\necho "$*" >>/var/called\n' >"$root/bin/systemctl"
	chmod 0755 "$root/bin/systemctl"
	files >"$work/before"
}

files() { (cd "$root" && find . -path ./var -prune -o -print | sort); }

# called compares what the scripts had to say to systemctl since the last time.
called() { # when, lines...
	when=$1
	shift
	printf '%s\n' "$@" >"$work/want"
	cmp -s "$work/want" "$root/var/called" || fail "$when, systemctl was called so: $(cat "$root/var/called"); should be: $(cat "$work/want")"
	rm "$root/var/called"
}

installed() {
	for file in usr/lib/systemd/system/eosbridge.service usr/lib/systemd/system/eosbridge@.service \
		usr/share/doc/eosbridge/THIRD_PARTY.txt usr/share/doc/eosbridge/docs/install.md; do
		[ -s "$root/$file" ] || fail "no /$file"
	done
	[ "$(stat -c '%a %u' "$root/etc/eosbridge/eosbridge.env")" = "600 0" ] || fail "eosbridge.env, which may hold a password, is not for root only"
	chroot "$root" /usr/bin/eosbridge version | grep -qF "$version" || fail "the binary does not run, or is not $version"
	called "at the installation" daemon-reload
	echo "# edited" >>"$root/etc/eosbridge/eosbridge.env"
}

upgraded() {
	[ "$(cat "$root/usr/bin/eosbridge")" = newer ] || fail "an upgrade leaves the old binary"
	grep -q "^# edited" "$root/etc/eosbridge/eosbridge.env" || fail "an upgrade takes the settings back"
}

# Oldest first.
kind=versions older=0~0
for tag in 1a2b3c4-dirty v0.9.0-rc.1 v0.9.0-rc.2 v0.9.0-rc.2-1-g1a2b3c4 v0.9.0 v0.9.0-4-g1a2b3c4 v0.9.0-4-g1a2b3c4-dirty v0.10.0; do
	newer=$(deploy/package/version.sh "$tag" "$SOURCE_DATE_EPOCH")
	dpkg --compare-versions "$older" lt "$newer" || fail "to dpkg $newer ($tag) is not newer than $older"
	[ "$(rpm --eval "%{lua:print(rpm.vercmp('$older', '$newer'))}")" = -1 ] || fail "to rpm $newer ($tag) is not newer than $older"
	older=$newer
done

restart="--no-block try-restart eosbridge.service eosbridge@*.service"
stop="stop eosbridge.service eosbridge@*.service"
disable="--no-reload disable eosbridge.service eosbridge@.service"

deploy/stage.sh "$binary" "$version" "$date" "$work/sbom.json"
mkdir "$work/old" "$work/new"
deploy/package.sh "$nfpm" "$version" "$(${GO:-go} env GOHOSTARCH)" "$work/old" >/dev/null
echo newer >dist/stage/bin/eosbridge # a stand-in: it is only looked at
deploy/package.sh "$nfpm" v999.0.0 "$(${GO:-go} env GOHOSTARCH)" "$work/new" >/dev/null
rm -rf dist/stage

kind=deb
begin
deb() { dpkg --root="$root" "$@" >"$work/said" 2>&1 || fail "$*: $(cat "$work/said")"; }
deb --install "$work"/old/*.deb
installed
deb --install "$work"/new/*.deb
upgraded
called "at the upgrade" daemon-reload daemon-reload "$restart"
deb --remove eosbridge
[ ! -e "$root/usr/bin/eosbridge" ] || fail "the binary is still there after the removal"
grep -q "^# edited" "$root/etc/eosbridge/eosbridge.env" || fail "the removal takes the settings along"
called "at the removal" "$stop" "$disable" daemon-reload
deb --purge eosbridge
files | diff "$work/before" - || fail "this is left after the purge"

kind=rpm
begin
on_debian=
if rpm --force-debian --version >/dev/null 2>&1; then on_debian=--force-debian; fi
# --nodeps: /bin/sh is there, but no package has brought it.
red() { rpm $on_debian --root "$root" --dbpath /var/lib/rpm --nodeps "$@" >"$work/said" 2>&1 || fail "$*: $(cat "$work/said")"; }
red --install "$work"/old/*.rpm
installed
red --upgrade "$work"/new/*.rpm
upgraded
called "at the upgrade" daemon-reload "$restart" daemon-reload
red --erase eosbridge
called "at the removal" "$stop" "$disable" daemon-reload
mv "$root/etc/eosbridge/eosbridge.env.rpmsave" "$work/saved" || fail "the removal does not save the settings"
rmdir "$root/etc/eosbridge"
files | diff "$work/before" - || fail "this is left after the removal"
echo "packages: deb and rpm installed, upgraded, removed"
