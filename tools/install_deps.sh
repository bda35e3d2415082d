#!/bin/sh
# Installs what building needs on Debian 12 or a relative of it, and nothing
# when it is there. With --checks also what only tools/test.sh needs.
set -eu
packages="cmake ninja-build g++ python3 protobuf-compiler libprotobuf-dev
  libabsl-dev libfmt-dev libcli11-dev nlohmann-json3-dev
  libgtest-dev libgmock-dev libbenchmark-dev libdnnl-dev zlib1g-dev
  libopenmpi-dev openmpi-bin"
if [ "${1:-}" = --checks ]; then
  packages="$packages git clang clang-tidy clang-format libclang-rt-dev
    lld python3-pip"
fi
missing=
for package in $packages; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null |
    grep -q "ok installed" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
echo "installing:$missing"
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
$sudo apt-get update -q
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy \
    --no-install-recommends $missing </dev/null
