# syntax=docker/dockerfile:1

# Two images of the same program:
#   usher  Node and nothing else, no shell either: a sidecar, and a node proxy that captures nothing
#   tools  with what Usher writes rules with: the nodes of a cluster
# `npm run image` builds both, on base images pinned by their digests, with labels, SBOM and provenance.
# Debian 13 for nftables 1.1: older ones crash on tables that a newer one of the host's has written.
ARG NODE_IMAGE=node:24-trixie-slim
ARG RUNTIME_IMAGE=gcr.io/distroless/nodejs24-debian12

# Build: TypeScript to JavaScript, with all dependencies.
FROM ${NODE_IMAGE} AS build
WORKDIR /usher
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY tsconfig.json ./
COPY scripts ./scripts
COPY src ./src
COPY bench ./bench
# `usher` for an image that has neither a shell nor env: the kernel starts Node by the first line.
RUN npm run build \
  && find dist -name '*.map' -delete \
  && mkdir bin \
  && printf '#!/nodejs/bin/node\nimport("/usher/dist/usher.js")\n' >bin/usher \
  && chmod 755 bin/usher

# What Usher needs while it runs: with the optional dependencies, as koffi is one, by which the
# linux relay makes its system calls (npm takes its binary for the platform of the image).
# TypeScript comes along as an optional peer of a library; type declarations and source maps are
# most of what is left. Nothing reads any of them.
FROM ${NODE_IMAGE} AS dependencies
WORKDIR /usher
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --omit=peer --ignore-scripts \
  && rm -rf node_modules/typescript node_modules/@typescript node_modules/.bin/ts* \
  && find node_modules \( -name '*.map' -o -name '*.d.ts' -o -name '*.d.cts' -o -name '*.d.mts' \) -delete

# What both images have.
FROM scratch AS program
WORKDIR /usher
COPY --from=dependencies /usher/node_modules ./node_modules
COPY --from=build /usher/dist ./dist
COPY package.json LICENSE ./
# What `usher demo` serves.
COPY deploy/examples ./deploy/examples

FROM ${RUNTIME_IMAGE} AS usher
LABEL org.opencontainers.image.title="usher" \
  org.opencontainers.image.description="Layer-4 (TCP/UDP) load-balancing proxy for Kubernetes Services, without tools" \
  org.opencontainers.image.licenses="Apache-2.0"
# A young generation of 2 MB a half in place of 16: 15 MB less on a node at rest, and no more CPU.
ENV NODE_ENV=production NODE_OPTIONS=--max-semi-space-size=2 PATH=/nodejs/bin
WORKDIR /usher
COPY --from=program /usher ./
COPY --from=build /usher/bin/usher /nodejs/bin/usher
# Enough for the sidecar, and for all that listens on ports from 1024 up.
USER 65532:65532
# No HEALTHCHECK: Kubernetes doesn't use it, and has /livez and /healthz.
ENTRYPOINT ["usher"]
CMD ["run"]

FROM ${NODE_IMAGE} AS tools
LABEL org.opencontainers.image.title="usher-tools" \
  org.opencontainers.image.description="Layer-4 (TCP/UDP) load-balancing proxy for Kubernetes Services, with tools for every mode" \
  org.opencontainers.image.licenses="Apache-2.0"
ENV NODE_ENV=production NODE_OPTIONS=--max-semi-space-size=2
# What Usher writes rules, routes and addresses with, and ends stale UDP flows; ipset and ipvsadm
# for ipvs mode and `usher cleanup`, kmod to load the kernel's modules. setpriv, by which the relay's
# process has less privileges than Usher, is in util-linux, which the image of Debian has.
RUN apt-get update \
  && apt-get install --yes --no-install-recommends \
  conntrack iproute2 ipset iptables ipvsadm kmod nftables \
  && rm -rf /var/lib/apt/lists/* \
  && ln -s /usher/dist/usher.js /usr/local/bin/usher
WORKDIR /usher
COPY --from=program /usher ./
# What captures traffic runs as root with a few capabilities: deploy/kubernetes.
USER 65532:65532
ENTRYPOINT ["usher"]
CMD ["run"]
