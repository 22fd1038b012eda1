#!/bin/sh
# The digests that the bases of the Dockerfile have today, as options of docker build. Who keeps what this
# prints can build from the same bases again:
#   docker build $(image/bases.sh) -t REGISTRY/rebalancer:TAG .
set -eu
dockerfile=$(dirname "$0")/../Dockerfile
for base in BUILD BASE; do
  image=$(sed -n "s/^ARG $base=//p" "$dockerfile")
  digest=$(docker buildx imagetools inspect "$image" --format '{{.Manifest.Digest}}')
  echo "--build-arg ${base}_DIGEST=$digest"
done
