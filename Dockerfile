# The worker, and with another command any other part: docker run IMAGE streamer --help
FROM python:3.11.13-slim-bookworm AS build
WORKDIR /src
RUN python -m venv /opt/streamer
COPY requirements requirements
RUN /opt/streamer/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/all.txt
COPY pyproject.toml README.md LICENSE ./
COPY streamer streamer
RUN /opt/streamer/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation .

FROM python:3.11.13-slim-bookworm
RUN useradd --uid 10001 --create-home --home-dir /home/streamer --shell /usr/sbin/nologin streamer
COPY --from=build /opt/streamer /opt/streamer
ENV PATH=/opt/streamer/bin:$PATH PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /home/streamer
STOPSIGNAL SIGTERM
CMD ["streamer", "worker"]
