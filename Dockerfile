# The explorer, or any command in its place:
#   docker build -t inference-econ .
#   docker run --rm -p 127.0.0.1:8765:8765 inference-econ
#   docker run --rm inference-econ price llama_3_70b h100_sxm
FROM python:3.13-slim AS build
WORKDIR /source
COPY . .
RUN python -m venv /opt/inference-econ \
    && /opt/inference-econ/bin/pip install --no-cache-dir --disable-pip-version-check '.[mcp]' \
    && /opt/inference-econ/bin/pip uninstall --yes pip

FROM python:3.13-slim
COPY --from=build /opt/inference-econ /opt/inference-econ
ENV PATH=/opt/inference-econ/bin:$PATH
# Nobody who breaks out of a question may do anything; files of one's own are mounted at /work.
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin asker
USER 10001
WORKDIR /work
EXPOSE 8765
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8765/openapi.json')"]
ENTRYPOINT ["inference-econ"]
# All addresses of the container, which nobody reaches unless its port is published.
CMD ["serve", "--host", "0.0.0.0", "--port", "8765"]
