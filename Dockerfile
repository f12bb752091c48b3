# The server: no torch, no GPU.
#
#     docker build --tag fleetridge-server .
#
# To renew the base: take the newest patch release of Python 3.13 on Debian 12, and pin its digest as your registry has it
# (docker buildx imagetools inspect python:3.13.9-slim-bookworm; then python:3.13.9-slim-bookworm@sha256:...).
ARG PYTHON_IMAGE=python:3.13.9-slim-bookworm

FROM ${PYTHON_IMAGE} AS wheel
WORKDIR /src
COPY constraints.txt ./
RUN python -m pip install --no-cache-dir --constraint constraints.txt build hatchling
# What the wheel is made of, and nothing else: with these folders it holds core and server, and no agent.
COPY pyproject.toml hatch_build.py README.md CHANGELOG.md LICENSE ./
COPY core core
COPY server server
COPY migrations migrations
RUN python -m build --wheel --no-isolation --outdir /dist

FROM ${PYTHON_IMAGE}
COPY constraints.txt /tmp/constraints.txt
COPY --from=wheel /dist /tmp/dist
RUN for wheel in /tmp/dist/*.whl; do python -m pip install --no-cache-dir --constraint /tmp/constraints.txt "${wheel}[server]"; done \
    && rm -r /tmp/dist /tmp/constraints.txt \
    && install --directory --owner=10001 --group=10001 --mode=0750 /var/lib/fleetridge

LABEL org.opencontainers.image.title="fleetridge-server" \
      org.opencontainers.image.description="Keeps the rooflines of a fleet of GPUs and says which one is slower than its peers" \
      org.opencontainers.image.licenses="Apache-2.0"

ENV PYTHONUNBUFFERED=1 \
    FLEETRIDGE_SERVER_HOST=0.0.0.0 \
    FLEETRIDGE_SERVER_PORT=8000 \
    DATABASE_URL=sqlite:////var/lib/fleetridge/fleetridge.db
# By number, so that an orchestrator can see that it is not root. The root file system may be read-only: only
# /var/lib/fleetridge is written, and only with SQLite.
USER 10001:10001
WORKDIR /var/lib/fleetridge
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import sys, urllib.request; sys.exit(urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=4).status != 200)"]
ENTRYPOINT ["fleetridge-server"]
CMD ["serve"]
