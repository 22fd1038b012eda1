# Build:  docker build -t rebalancer .
# Run:    docker run --rm rebalancer --help
#
# Both stages are Debian 12 with Python 3.11, so that compiled wheels of the first run in the second.
FROM python:3.11-slim-bookworm AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /build

# Dependencies first: they change less often than the code. Wheels only, each with the hash of the lock.
COPY requirements-runtime.lock ./
RUN pip wheel --require-hashes --only-binary=:all: --no-deps \
        --wheel-dir /wheels --requirement requirements-runtime.lock
RUN pip install --no-index --no-deps --no-compile --target /site-packages /wheels/*.whl

# Pure Python: copying the package is installing it, and needs no build backend from the network. The build
# context leaves the embedded cluster of `rebalancer demo` out (.dockerignore).
COPY rebalancer /site-packages/rebalancer
# Bytecode is compiled here once: the container's file system is read-only. By content, not by time, so that
# the same sources give the same image.
RUN python -m compileall -q --invalidation-mode unchecked-hash /site-packages

# No shell, no package manager, no root.
FROM gcr.io/distroless/python3-debian12:nonroot

COPY --from=build /site-packages /site-packages
ENV PYTHONPATH=/site-packages PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
WORKDIR /home/nonroot
ENTRYPOINT ["python3", "-m", "rebalancer"]
CMD ["--help"]
