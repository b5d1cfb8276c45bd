# The worker, and with another command any other part: docker run IMAGE streamer --help
# The image installs a wheel. A release gives the one that was published: docker build --build-context wheel=dist .
FROM python:3.11.13-slim-bookworm AS wheel-built
WORKDIR /src
RUN python -m venv /opt/build
COPY requirements requirements
RUN sed -n '/^setuptools==/,/[^\\]$/p' requirements/all.txt > builds.txt \
    && /opt/build/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r builds.txt
COPY pyproject.toml README.md LICENSE ./
COPY streamer streamer
RUN /opt/build/bin/pip wheel --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir /dist .

FROM scratch AS wheel
COPY --from=wheel-built /dist/ /

FROM python:3.11.13-slim-bookworm AS build
RUN python -m venv /opt/streamer
COPY requirements requirements
RUN /opt/streamer/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/all.txt
COPY --from=wheel /*.whl /dist/
# The digest of the published wheel; empty: of a wheel that was built here.
ARG WHEEL_SHA256=
RUN test -z "$WHEEL_SHA256" || echo "$WHEEL_SHA256  $(echo /dist/*.whl)" | sha256sum --check --strict
RUN /opt/streamer/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-index /dist/*.whl

FROM python:3.11.13-slim-bookworm
RUN useradd --uid 10001 --create-home --home-dir /home/streamer --shell /usr/sbin/nologin streamer
COPY --from=build /opt/streamer /opt/streamer
ENV PATH=/opt/streamer/bin:$PATH PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /home/streamer
STOPSIGNAL SIGTERM
CMD ["streamer", "worker"]
