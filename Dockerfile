# Build:  docker build -t rebalancer .
#         The bases are tags; pin them to digests that you have checked:
#         docker build --build-arg BUILD=python:3.11-slim-bookworm@sha256:… --build-arg BASE=…@sha256:… .
#         image/build.py makes the same image from Debian's packages, pinned by image/debian.lock, without a registry.
# Run:    docker run --rm rebalancer --help
#
# Both stages are Debian 12 with Python 3.11, so that compiled wheels of the first run in the second.
ARG BUILD=python:3.11-slim-bookworm
ARG BASE=gcr.io/distroless/python3-debian12:nonroot
FROM ${BUILD} AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /build

# The packages of the lock and this checkout, without what the program never imports.
COPY requirements-runtime.lock image/site_packages.sh ./
COPY rebalancer ./rebalancer
RUN ./site_packages.sh /site-packages

# No shell, no package manager, no root.
FROM ${BASE}

LABEL org.opencontainers.image.title="rebalancer" \
      org.opencontainers.image.description="Evicts pods from hot Kubernetes nodes, only when they will land better." \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"

COPY --from=build /site-packages /site-packages
ENV PYTHONPATH=/site-packages PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
WORKDIR /home/nonroot
ENTRYPOINT ["python3", "-m", "rebalancer"]
CMD ["--help"]
