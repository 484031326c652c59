#!/bin/sh
# install_packages.sh PACKAGE...: installs the Debian packages that are not installed yet, as root or through sudo.
set -eu
command -v dpkg-query >/dev/null || { echo "Not a Debian system; install what corresponds to: $*"; exit 0; }
missing=
for package in "$@"; do
    case $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true) in
    *' installed') ;;
    *) missing="$missing $package" ;;
    esac
done
[ -n "$missing" ] || exit 0
echo "Installing Debian packages:$missing"
as_root=
[ "$(id -u)" = 0 ] || as_root=sudo
if [ -n "$as_root" ] && ! command -v sudo >/dev/null; then
    echo "You are not root and there is no sudo. As root, run: apt-get install$missing" >&2
    exit 1
fi
$as_root apt-get update -q
# shellcheck disable=SC2086 # a list of words
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
