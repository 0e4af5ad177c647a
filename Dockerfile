# One image for every stage; the command chooses: up, collect, assemble, score, export.
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY assay assay
COPY collector collector
COPY scorers scorers
COPY exporters exporters
COPY dashboards dashboards
COPY prompts prompts
RUN python -m venv /opt/assay \
    && /opt/assay/bin/pip install --no-cache-dir --constraint requirements.lock .

FROM python:3.12-slim
COPY --from=build /opt/assay /opt/assay
RUN useradd --uid 10001 --create-home assay && mkdir /data && chown assay /data
USER 10001
ENV PATH=/opt/assay/bin:$PATH PYTHONUNBUFFERED=1
WORKDIR /data
VOLUME /data
EXPOSE 4317 4318 9464
ENTRYPOINT ["assay"]
CMD ["up"]
