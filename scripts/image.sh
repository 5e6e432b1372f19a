#!/bin/bash
# Builds both images of the Dockerfile, REPOSITORY:VERSION and REPOSITORY:VERSION-tools, with docker buildx:
# on base images pinned by the digests that they have now, with labels, an SBOM and provenance.
#
#   npm run image -- registry.example/usher --platform linux/amd64,linux/arm64 --push
#
# What follows the repository is for docker buildx build. NODE_IMAGE and RUNTIME_IMAGE are the base images in
# place of the Dockerfile's; one with a digest is taken as it is.
set -euo pipefail
cd "$(dirname "$0")/.."

repository=${1-}
[[ $repository && $repository != -* ]] || {
  echo 'npm run image -- REPOSITORY [FLAG OF DOCKER BUILDX BUILD...]' >&2
  exit 2
}
shift

# The image of an ARG of the Dockerfile, with its digest: pinned NODE_IMAGE
pinned() {
  local image digest
  image=${!1-$(sed -n "s/^ARG $1=//p" Dockerfile)}
  if [[ $image != *@* ]]; then
    digest=$(docker buildx imagetools inspect --format '{{json .Manifest}}' "$image" |
      node -p 'JSON.parse(fs.readFileSync(0, "utf8")).digest')
    [[ $digest =~ ^sha256:[0-9a-f]{64}$ ]] || { echo "$image has no digest" >&2; exit 1; }
    image+=@$digest
  fi
  echo "$image"
}

version=$(node -p 'require("./package.json").version')
revision=$(git rev-parse HEAD)
[[ $(git status --porcelain) ]] && revision+=-dirty
# The same commit gives files the same times.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
node_image=$(pinned NODE_IMAGE)
runtime_image=$(pinned RUNTIME_IMAGE)

# build TARGET TAG BASE [FLAG...]
build() {
  local target=$1 tag=$2 base=$3
  shift 3
  echo "$repository:$tag on $base" >&2
  docker buildx build --target "$target" --tag "$repository:$tag" \
    --build-arg "NODE_IMAGE=$node_image" --build-arg "RUNTIME_IMAGE=$runtime_image" \
    --label "org.opencontainers.image.version=$version" \
    --label "org.opencontainers.image.revision=$revision" \
    --label "org.opencontainers.image.base.name=${base%@*}" \
    --label "org.opencontainers.image.base.digest=${base#*@}" \
    --sbom=true --provenance=mode=max "$@" .
}

build usher "$version" "$runtime_image" "$@"
build tools "$version-tools" "$node_image" "$@"
