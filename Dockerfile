# Strata in a container.
#
# The service listens on all interfaces here, and so it refuses to start without keys. Give them at run time, as an
# environment variable or as a file that STRATA_KEYS_FILE names; nothing in the image holds one:
#
#   docker run -e STRATA_API_KEYS=KEY -v "$HOME/code:/srv/workspaces:ro" -p 127.0.0.1:8787:8787 \
#     --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges strata
#
# deploy/compose.yaml and deploy/k8s say the same. Callers name workspaces below /srv/workspaces.
#
# The base is named by its tag. Where its digest is known, pin it: --build-arg BASE=python:3.12-slim-bookworm@sha256:…

ARG BASE=python:3.12-slim-bookworm

FROM ${BASE} AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_NO_INPUT=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /build

RUN python -m venv --without-pip /opt/strata
COPY deploy/requirements.lock ./
RUN python -m pip --python /opt/strata/bin/python install --require-hashes --only-binary :all: --requirement requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY app ./app
# What only builds the package does not go along.
RUN python -m pip --python /opt/strata/bin/python install --no-deps --no-index --no-build-isolation . \
    && python -m pip --python /opt/strata/bin/python uninstall --yes \
        hatchling editables packaging pluggy tomlkit trove-classifiers \
    && /opt/strata/bin/python -m compileall -q /opt/strata/lib

FROM ${BASE}

RUN apt-get update \
    && apt-get install -y --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/* \
    && python -m pip uninstall --yes --root-user-action ignore pip setuptools wheel \
    && rm -rf /usr/local/lib/python3.*/ensurepip \
    && useradd --system --uid 10001 --home-dir /nonexistent --shell /usr/sbin/nologin strata \
    && mkdir -p /srv/workspaces

COPY --from=build /opt/strata /opt/strata
COPY LICENSE deploy/licences.md /usr/share/doc/strata/

ENV PATH=/opt/strata/bin:/usr/local/bin:/usr/bin \
    PYTHONUTF8=1 \
    PYTHONSAFEPATH=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/nonexistent \
    STRATA_HOST=0.0.0.0 \
    STRATA_PORT=8787 \
    STRATA_ROOTS=/srv/workspaces

LABEL org.opencontainers.image.title="Strata" \
      org.opencontainers.image.licenses="MIT"

USER 10001:10001
# Not below a workspace: what lies in the working directory is a stranger's.
WORKDIR /
EXPOSE 8787

# From here on no shell is needed.
HEALTHCHECK --interval=15s --timeout=3s --start-period=10s --retries=3 \
    CMD ["python", "-I", "-c", "import http.client, os; probe = http.client.HTTPConnection('127.0.0.1', int(os.environ['STRATA_PORT']), timeout=2); probe.request('GET', '/healthz'); raise SystemExit(probe.getresponse().status != 200)"]

ENTRYPOINT ["strata"]
CMD ["serve"]
