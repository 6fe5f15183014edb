# syntax=docker/dockerfile:1
# The pipeline with all requirements of its commands: docker run tidemark run --bootstrap-servers kafka:9092
# State lives in /var/lib/tidemark: mount a volume there.

FROM python:3.12-slim-trixie AS java
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-21-jre-headless procps \
 && rm -rf /var/lib/apt/lists/*

FROM java AS build
COPY requirements/ /build/requirements/
WORKDIR /build
RUN python -m venv /opt/uv && /opt/uv/bin/pip install --no-cache-dir --require-hashes -r requirements/uv.txt
RUN python -m venv --without-pip /opt/tidemark \
 && /opt/uv/bin/uv pip sync --no-cache --python /opt/tidemark/bin/python --require-hashes \
      --build-constraints requirements/build.txt requirements/run.txt
COPY pyproject.toml README.md LICENSE ./
COPY src/ src/
COPY bronze/ bronze/
COPY silver/ silver/
COPY gold/ gold/
COPY app/ app/
RUN /opt/uv/bin/uv build --wheel --no-cache --require-hashes --build-constraints requirements/build.txt --out-dir dist \
 && /opt/uv/bin/uv pip install --no-cache --python /opt/tidemark/bin/python --no-deps dist/*.whl
# The image contains the JVM dependencies, because a container must start without the network.
RUN TIDEMARK_JVM_CACHE=/opt/tidemark/jvm /opt/tidemark/bin/python -c \
      "from tidemark.local import jars; from tidemark.settings import load; jars.spark_jars(load()); jars.broker_jars(load())"

FROM java
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/tidemark tidemark
COPY --from=build /opt/tidemark /opt/tidemark
ENV PATH=/opt/tidemark/bin:$PATH \
    TIDEMARK_HOME=/var/lib/tidemark \
    TIDEMARK_JVM_CACHE=/opt/tidemark/jvm \
    PYTHONUNBUFFERED=1
USER tidemark
WORKDIR /var/lib/tidemark
VOLUME /var/lib/tidemark
ENTRYPOINT ["tidemark"]
CMD ["--help"]
