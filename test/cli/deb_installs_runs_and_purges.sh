# SPDX-License-Identifier: Apache-2.0
# The package has every dependency of the program, installs into an empty root, runs there and leaves
# nothing when purged. (tools/try-deb does the same in a whole Debian; it needs the network.)
command -v dpkg-shlibdeps > /dev/null || { echo "dpkg-dev is not installed"; exit 77; }
case $GPUHOURS in *san*) echo "a package holds the plain build"; exit 77 ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PROGRAM=$GPUHOURS LIBRARY= PAGE= INSTALL=0 tools/deb "$work" > /dev/null
package=$(ls "$work"/gpuhours_*.deb)
[ "$(dpkg-deb -f "$package" Version)" = "$(cat VERSION)" ] && echo "the version is that of VERSION"
dpkg-deb -f "$package" Depends | tr ',' '\n' | sed 's/ (.*//; s/^ //' | grep -xE 'libc6|libsqlite3-0|zlib1g|libyaml-0-2'
dpkg-deb -c "$package" | awk '$2 != "root/root"' # all files are root's

root=$work/machine
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/triggers"
: > "$root/var/lib/dpkg/status"
before=$(find "$root" -not -path "$root/var/*" | sort)
package_manager() { dpkg --root="$root" --force-depends --force-not-root --force-script-chrootless --log=/dev/null "$@" > "$work/log" 2>&1 || cat "$work/log"; }
package_manager -i "$package"
"$root/usr/bin/gpuhours" validate --ledger off > /dev/null && echo "validate passes"
ls "$root/usr/share/doc/gpuhours/copyright" "$root/usr/share/doc/gpuhours/changelog.gz" > /dev/null && echo "licence and changelog are there"
package_manager --purge gpuhours
[ "$(find "$root" -not -path "$root/var/*" | sort)" = "$before" ] && echo "nothing is left"
