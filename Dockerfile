# Build:  docker build $(image/bases.sh) -t REGISTRY/rebalancer .
#         docker build $(image/bases.sh) -t REGISTRY/rebalancer-extender --target extender .
#         The bases are named by digest; none is built from a tag alone. image/bases.sh asks for those of today.
#         image/build.py makes the same images from Debian's packages, pinned by image/debian.lock, without a registry.
# Run:    docker run --rm REGISTRY/rebalancer --help
#
# All stages are Debian 12 with Python 3.11, so that compiled wheels of the first run in the last.
ARG BUILD=python:3.11-slim-bookworm
ARG BUILD_DIGEST
ARG BASE=gcr.io/distroless/python3-debian12:nonroot
ARG BASE_DIGEST

# The packages of the lock, without what the program never imports.
FROM ${BUILD}@${BUILD_DIGEST} AS dependencies
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /build
COPY requirements-runtime.lock image/site_packages.sh image/own_packages.py ./
RUN ./site_packages.sh /site-packages

FROM dependencies AS program-packages
COPY pyproject.toml ./
COPY rebalancer ./rebalancer
RUN python own_packages.py /site-packages .

FROM program-packages AS extender-packages
COPY extender ./extender
RUN python own_packages.py /site-packages extender

# No shell, no package manager, no root.
FROM ${BASE}@${BASE_DIGEST} AS runtime
LABEL org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PYTHONPATH=/site-packages PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
WORKDIR /home/nonroot
ENTRYPOINT ["python3", "-m", "rebalancer"]
CMD ["--help"]

# What scores nodes for a kube-scheduler: extender/k8s runs it.
FROM runtime AS extender
LABEL org.opencontainers.image.title="rebalancer-extender" \
      org.opencontainers.image.description="Scores nodes for a stock kube-scheduler."
COPY --from=extender-packages /site-packages /site-packages

# What plans and acts; the last stage is built where none is named.
FROM runtime AS program
LABEL org.opencontainers.image.title="rebalancer" \
      org.opencontainers.image.description="Evicts pods from hot Kubernetes nodes, only when they will land better."
COPY --from=program-packages /site-packages /site-packages
