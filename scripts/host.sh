#!/bin/sh
# Packages of the host that some tests use (network namespaces, a browser). Called by `make host` and `make test`.
# Where they cannot be installed, the tests that need them say so and are skipped.
set -eu
missing=""
command -v git >/dev/null 2>&1 || missing="$missing git"
command -v ip >/dev/null 2>&1 || missing="$missing iproute2"
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing:$missing"
    apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "not installed (no root or no apt-get):$missing"
fi
