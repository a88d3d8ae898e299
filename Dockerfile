# The server, the command line and the demo model, on Debian.
#   docker build -t steadystate .
#   docker run --rm -p 50051:50051 -p 9464:9464 steadystate
# Another model:
#   docker run --rm -p 50051:50051 -v DIR:/model:ro steadystate --model /model
ARG DEBIAN_RELEASE=trixie

FROM debian:${DEBIAN_RELEASE}-slim AS build
WORKDIR /src
COPY deploy/install-packages deploy/
RUN deploy/install-packages
COPY . .
RUN cmake --preset release -DSTEADYSTATE_BUILD_TESTS=OFF \
    && cmake --build --preset release \
        --target steadystate-server steadystate \
    && strip build/release/bin/steadystate-server build/release/bin/steadystate \
    && deploy/runtime-packages build/release/bin/* >runtime-packages

FROM debian:${DEBIAN_RELEASE}-slim
COPY --from=build /src/runtime-packages /usr/share/steadystate/
RUN apt-get -qq update \
    && DEBIAN_FRONTEND=noninteractive xargs -a /usr/share/steadystate/runtime-packages \
        apt-get -qq install -y --no-install-recommends >/dev/null \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/build/release/bin/steadystate-server \
    /src/build/release/bin/steadystate /usr/local/bin/
COPY deploy/models/demo/MODEL_CARD.md deploy/models/demo/config.json \
    deploy/models/demo/model.safetensors /usr/share/steadystate/models/demo/
COPY LICENSE /usr/share/doc/steadystate/
USER 65532:65532
EXPOSE 50051 9464
# Asks at STEADYSTATE_ADDRESS, for those who let the server listen elsewhere.
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s \
    CMD ["steadystate", "health"]
ENTRYPOINT ["steadystate-server", "--listen", "0.0.0.0:50051", \
    "--metrics_listen", "0.0.0.0:9464"]
CMD ["--model", "/usr/share/steadystate/models/demo"]
