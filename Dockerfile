# One file, two images: `slice` runs slices and coordinators, `java` runs ZooKeeper and Spark as well.
#
#   docker build --target slice --tag braid .
#   docker build --target java --tag braid-java .
#
# Packages are pinned with their hashes in docker/*.txt (docker/lock.py). BASE may be any Debian 12: one from another
# registry, or one made with debootstrap.
ARG BASE=debian:12-slim

FROM ${BASE} AS python
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 tini \
    && apt-get clean && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin \
    && groupadd --system --gid 10001 braid \
    && useradd --system --uid 10001 --gid 10001 --create-home --home-dir /var/lib/braid braid


FROM python AS builder
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv && python3 -m venv /opt/braid
COPY docker/build.txt docker/slices.txt /build/docker/
RUN /opt/braid/bin/pip install --no-cache-dir --require-hashes --requirement /build/docker/build.txt \
    && /opt/braid/bin/pip install --no-cache-dir --require-hashes --requirement /build/docker/slices.txt


FROM builder AS project
WORKDIR /build
COPY pyproject.toml README.md ./
COPY braid braid
COPY services services
COPY coordinator coordinator
COPY spark spark
COPY benchmarks benchmarks
# Compiled kernels are found by the times of their sources, and images keep whole seconds only.
RUN /opt/braid/bin/pip install --no-cache-dir --no-deps --no-build-isolation . \
    && /opt/braid/bin/pip uninstall --yes setuptools pip \
    && find /opt/braid/lib/python3.*/site-packages/braid -name '*.py' -exec touch --date=@1700000000 {} + \
    && /opt/braid/bin/python -m compileall -q /opt/braid/lib/python3.*/site-packages/braid


FROM python AS slice
COPY --from=project /opt/braid /opt/braid
COPY docker/health.py /opt/braid/health.py
RUN install --directory --owner=braid /opt/braid/cache
ENV PATH=/opt/braid/bin:$PATH XDG_CACHE_HOME=/opt/braid/cache PYTHONUNBUFFERED=1
USER braid
WORKDIR /var/lib/braid
# The matching engine is compiled for the processor of this machine. On another kind each matcher does it once more.
RUN python -m braid.matching.warm
EXPOSE 8080
HEALTHCHECK --interval=5s --timeout=5s --start-period=120s \
    CMD ["python", "-I", "/opt/braid/health.py", "/healthz"]
# tini is process 1: it forwards signals, also to a slice that is still being loaded, and reaps what Spark leaves behind.
ENTRYPOINT ["tini", "--"]
CMD ["braid", "--help"]


FROM builder AS spark-packages
COPY docker/spark.txt /build/docker/
RUN /opt/braid/bin/pip install --no-cache-dir --no-deps --no-build-isolation --require-hashes --target /opt/spark \
    --requirement /build/docker/spark.txt


# What changes seldom comes first: a new version of Braid brings no new Java.
FROM python AS java
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && apt-get clean && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
COPY --from=spark-packages /opt/spark /opt/spark
COPY --from=slice --chown=braid /opt/braid /opt/braid
RUN echo /opt/spark >"$(/opt/braid/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/spark.pth"
ENV PATH=/opt/braid/bin:$PATH XDG_CACHE_HOME=/opt/braid/cache PYTHONUNBUFFERED=1 SPARK_HOME=/opt/spark/pyspark
USER braid
WORKDIR /var/lib/braid
ENTRYPOINT ["tini", "--"]
CMD ["braid", "--help"]
