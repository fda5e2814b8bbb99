# Hermes Gateway in a container: an ordinary user, data in /data, nothing else to write (a read-only root works).
#   docker build -t hermes .
#   docker run -d --name hermes -v hermes:/data --env-file .env -p 127.0.0.1:8642:8642 hermes
# See docs/guides/docker.md.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 python3-venv ca-certificates binutils \
    && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml requirements.lock README.md LICENSE /src/
COPY src /src/src
COPY bridges /src/bridges
# Packages are pinned by hash; what is only needed to build or to test them is left out of the image.
RUN python3 -m venv /opt/hermes \
    && /opt/hermes/bin/pip install --no-cache-dir --no-deps --no-compile --require-hashes -r /src/requirements.lock \
    && /opt/hermes/bin/pip install --no-cache-dir --no-deps --no-compile /src \
    && /opt/hermes/bin/pip uninstall -y pip setuptools \
    && find /opt/hermes -depth \( -name tests -o -name __pycache__ -o -name '*.pyi' -o -name '*.pyx' -o -name '*.c' \) \
        -exec rm -rf {} + \
    && find /opt/hermes -name "*.so" -exec strip --strip-unneeded {} + \
    && python3 -m compileall -q /opt/hermes/lib

FROM ${BASE}
# bubblewrap holds the agents' commands where the container may make namespaces; git keeps /undo's states.
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3-minimal libpython3-stdlib ca-certificates bubblewrap \
    && rm -rf /var/lib/apt/lists/* /usr/share/doc /usr/share/man /usr/share/locale /var/cache/* /var/log/* \
    && useradd --uid 10001 --home-dir /data --shell /usr/sbin/nologin hermes \
    && install -d -o hermes -g hermes -m 700 /data
COPY --from=build /opt/hermes /opt/hermes
ENV HERMES_HOME=/data HOME=/data PATH=/opt/hermes/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 LANG=C.UTF-8 HERMES_RUNTIME_DIR=/tmp/hermes
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8642
STOPSIGNAL SIGTERM
# Exit code 0 while the gateway answers on its socket.
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s CMD ["hermes", "gateway", "status"]
ENTRYPOINT ["hermes"]
CMD ["gateway", "run", "--quiet"]
