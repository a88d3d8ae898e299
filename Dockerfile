# The server, the command line and the demo model, on Debian.
#   docker build -t steadystate .
#   docker run --rm -p 127.0.0.1:50051:50051 -p 127.0.0.1:9464:9464 steadystate
# Another model, and other flags of the server:
#   docker run --rm -p 127.0.0.1:50051:50051 -v DIR:/model:ro \
#     steadystate --model /model
# On Debian 12: --build-arg DEBIAN_RELEASE=bookworm
ARG DEBIAN_RELEASE=trixie

FROM debian:${DEBIAN_RELEASE}-slim AS build
WORKDIR /src
COPY deploy/install-packages deploy/
RUN deploy/install-packages
# Only what is compiled, so that a change of anything else compiles nothing.
COPY CMakeLists.txt CMakePresets.json ./
COPY proto proto/
COPY kernels kernels/
COPY server server/
COPY client client/
RUN cmake --preset release -DSTEADYSTATE_BUILD_TESTS=OFF \
    && cmake --build --preset release --target steadystate-server steadystate \
    && strip build/release/bin/*
COPY LICENSE ./
COPY deploy/image-root deploy/
COPY deploy/models deploy/models/
# The programs are run once in what will be the image, with every symbol bound:
# a library that is missing ends the build.
RUN deploy/image-root /image \
        build/release/bin/steadystate-server build/release/bin/steadystate \
        build/release/bin/steadystate-sentencepiece.so \
    && install -D -m 644 -t /image/usr/share/doc/steadystate LICENSE \
        proto/inference/NOTICE \
    && install -D -m 644 -t /image/usr/share/steadystate/models/demo \
        deploy/models/demo/MODEL_CARD.md deploy/models/demo/config.json \
        deploy/models/demo/model.safetensors \
    && LD_BIND_NOW=1 chroot /image /usr/local/bin/steadystate-server --version \
    && LD_BIND_NOW=1 chroot /image /usr/local/bin/steadystate version

# From scratch rather than from Debian: that would double the size with a shell,
# apt and perl, which the server never calls but which scanners report, and
# which help whoever breaks in. What is here keeps its entries in dpkg's
# database. `docker exec` has the command line; those who want a shell beside
# the server give it one for the time (`kubectl debug`, `docker debug`).
FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Steadystate" \
    org.opencontainers.image.description="Serves linear-attention models" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}"
COPY --from=build /image /
ENV PATH=/usr/local/bin
USER 65532:65532
EXPOSE 50051 9464
# Asks at STEADYSTATE_ADDRESS, for those who let the server listen elsewhere.
HEALTHCHECK --interval=5s --timeout=6s --start-period=30s \
    CMD ["steadystate", "health"]
# Of flags that are given twice the last holds, so any of these can be changed
# by arguments of `docker run`.
ENTRYPOINT ["steadystate-server", \
    "--listen", "0.0.0.0:50051", "--metrics_listen", "0.0.0.0:9464", \
    "--model", "/usr/share/steadystate/models/demo"]
