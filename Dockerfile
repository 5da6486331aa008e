# The live service: docker build -t larc . && docker run -p 8722:8722 -v larc:/data larc
FROM python:3.11-slim
WORKDIR /larc
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY larc larc
# torch by itself and first, by its exact version; PIP_INDEX_URL chooses where from.
ARG PIP_INDEX_URL
# For several machines: docker build --build-arg EXTRA=ray -t larc:ray .
ARG EXTRA=serve
RUN pip install --no-cache-dir --constraint constraints.txt torch \
    && pip install --no-cache-dir --constraint constraints.txt ".[$EXTRA]" \
    && useradd --create-home larc && mkdir /data && chown larc /data
# KubeRay asks its pods with wget whether they are well, and ends those that have none.
RUN if [ "$EXTRA" = ray ]; then apt-get update \
    && apt-get install --yes --no-install-recommends wget && rm -rf /var/lib/apt/lists/*; fi
USER larc
RUN larc fetch smollm2-135m
ENV OMP_WAIT_POLICY=passive
VOLUME /data
EXPOSE 8722
STOPSIGNAL SIGTERM
HEALTHCHECK CMD python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:8722/healthz')"
CMD ["larc", "serve", "--data", "/data", "--host", "0.0.0.0", "--token-file", "/data/admin-token"]
