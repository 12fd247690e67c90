# Strata in a container.
#
# The service listens on all interfaces here, and so it refuses to start without keys. Give them at run time, as an
# environment variable; nothing in the image holds one:
#
#   docker run -e STRATA_API_KEYS=KEY -v "$HOME/code:/srv/workspaces:ro" -p 127.0.0.1:8787:8787 \
#     --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges strata
#
# deploy/compose.yaml says the same. Callers name workspaces below /srv/workspaces.

FROM python:3.12-slim-bookworm AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_NO_INPUT=1
WORKDIR /build

RUN python -m venv /opt/strata
COPY deploy/requirements.lock ./
RUN /opt/strata/bin/pip install --require-hashes --requirement requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY app ./app
RUN /opt/strata/bin/pip install --no-deps --no-index --no-build-isolation . \
    && /opt/strata/bin/python -m compileall -q /opt/strata/lib

FROM python:3.12-slim-bookworm

RUN apt-get update \
    && apt-get install -y --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /nonexistent --shell /usr/sbin/nologin strata \
    && mkdir -p /srv/workspaces

COPY --from=build /opt/strata /opt/strata

ENV PATH=/opt/strata/bin:$PATH \
    PYTHONUTF8=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp \
    STRATA_HOST=0.0.0.0 \
    STRATA_PORT=8787 \
    STRATA_ROOTS=/srv/workspaces

USER 10001:10001
WORKDIR /srv/workspaces
EXPOSE 8787

HEALTHCHECK --interval=15s --timeout=3s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen('http://127.0.0.1:' + os.environ['STRATA_PORT'] + '/healthz', timeout=2)"]

ENTRYPOINT ["strata"]
CMD ["serve"]
