#!/bin/sh
# site_packages.sh TARGET [MACHINE]: what the images need besides our own packages, from the lock, into TARGET.
# MACHINE is x86_64 or aarch64, by default that of this machine: wheels are unpacked, nothing of theirs is run.
# The Dockerfile and image/build.py both run this, so that their images hold the same. PYTHON is Python 3.11.
set -eu
target=$1
machine=${2:-$(uname -m)}
python=${PYTHON:-python3}
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT

# Wheels only, each with the hash of the lock; those for another Python than 3.11 have no use here.
platform="--platform manylinux_2_28_$machine --platform manylinux2014_$machine"
# shellcheck disable=SC2086 # each platform is words of its own
"$python" -m pip download --quiet --require-hashes --only-binary=:all: --no-deps $platform \
    --python-version 3.11 --implementation cp --dest "$wheels" --requirement requirements-runtime.lock
# shellcheck disable=SC2086
"$python" -m pip install --quiet --no-index --no-deps --no-compile --only-binary=:all: $platform \
    --python-version 3.11 --implementation cp --target "$target" "$wheels"/*.whl

# What the program never imports: clients for asyncio, the tests that packages bring, numpy's compiler of Fortran, and the
# second of zstandard's two libraries, which serves Pythons that cannot load the first.
rm -rf "$target/kubernetes/aio" "$target"/aiohttp* "$target"/aiohappyeyeballs* "$target"/aiosignal* \
    "$target"/frozenlist* "$target"/multidict* "$target"/propcache* "$target"/yarl* "$target"/attr "$target"/attrs*
rm -rf "$target/numpy/f2py" "$target/numpy/distutils" "$target/zstandard/"_cffi* "$target/zstandard/backend_cffi.py"
find "$target" -type d -name tests -prune -exec rm -rf {} +
rm -rf "$target/bin"
# Where pip found the wheels, and programs that begin with the path of this Python: both differ from build to build.
rm -f "$target"/*.dist-info/direct_url.json
sed -i '/direct_url\.json/d; /^\(\.\.\/\)*bin\//d' "$target"/*.dist-info/RECORD
