# Muster, as its chart runs it. Build from the top of the repository:
#
#   docker build -t muster:0.1.0 .
#
# Any Python 3.11 or newer on glibc with venv serves as BASE; pin it by digest in your build. Built (by buildah) on a
# plain Debian 12 with python3-venv, and run as its user with a read-only root; 285 MB on top of the base.
ARG BASE=python:3.11-slim

# ---- the environment: exact versions with hashes, wheels only, so that no compiler is needed even here ----------------
FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY requirements requirements
RUN python3 -m venv /opt/muster \
 && /opt/muster/bin/python -m pip install --require-hashes --only-binary=:all: -r requirements/runtime.txt

# The build backend and what it needs, with the hashes of the test requirements, apart from what is shipped.
RUN awk '/^[a-z]/ {keep = /^(hatchling|packaging|pathspec|pluggy|tomlkit|trove-classifiers)==/} keep' \
      requirements/test.txt > /tmp/backend.txt \
 && python3 -m venv /opt/backend \
 && /opt/backend/bin/python -m pip install --require-hashes --only-binary=:all: -r /tmp/backend.txt
COPY pyproject.toml README.md ./
COPY policies policies
COPY webhook webhook
RUN /opt/backend/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir /tmp/wheel . \
 && /opt/muster/bin/python -m pip install --no-deps /tmp/wheel/*.whl \
 # Nothing is installed at run time, and a read-only root cannot keep bytecode.
 && /opt/muster/bin/python -m pip uninstall --yes pip setuptools \
 && python3 -m compileall -q /opt/muster/lib

# ---- what runs --------------------------------------------------------------------------------------------------------
FROM ${BASE}
COPY --from=build /opt/muster /opt/muster
ENV PATH=/opt/muster/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# A number, so that kubelet can see that it is not root.
USER 65532:65532
WORKDIR /tmp
EXPOSE 8443
ENTRYPOINT ["/opt/muster/bin/muster"]
CMD ["serve"]
