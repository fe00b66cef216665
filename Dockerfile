# One binary, the C library it is linked to, root certificates; no shell, no package manager.
#
#   docker build -t twitter-updater .
#   buildah build --build-arg BINARY=build -t twitter-updater .    (Debian 12's does not take that from below)
#
# The base images may come from elsewhere (BASE needs ca-certificates), and the binary may be one that
# was compiled on the same Debian before: --build-arg BINARY=compiled takes target/release/twitter-updater.
#
# For a release name the base by its digest, with .ci/release-image: a tag may be another image tomorrow.

ARG RUST=docker.io/library/rust:1.95-slim-bookworm
ARG BASE=${RUST}
ARG BINARY=build

FROM ${RUST} AS build
WORKDIR /src
COPY . .
# Both caches outlive a change of the sources: then the crate alone is compiled.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked --features parquet,s3 \
    && cp target/release/twitter-updater /twitter-updater

FROM scratch AS compiled
COPY target/release/twitter-updater /twitter-updater

# hadolint ignore=DL3006
FROM ${BINARY} AS binary

# What the image holds, put together where there is a shell.
FROM ${BASE} AS root
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
WORKDIR /image
COPY --from=binary /twitter-updater usr/local/bin/twitter-updater
RUN ldd usr/local/bin/twitter-updater | grep -o '/[^ ]*' | xargs -I LIBRARY cp --parents --dereference LIBRARY . \
    && mkdir -p data tmp etc/ssl/certs usr/share/doc/twitter-updater/debian \
    && for package in libc6 libgcc-s1 ca-certificates; do \
         dpkg-query --show "$package" >>usr/share/doc/twitter-updater/debian/packages.txt; \
         cp "/usr/share/doc/$package/copyright" "usr/share/doc/twitter-updater/debian/$package.txt"; \
       done \
    && cp /etc/ssl/certs/ca-certificates.crt etc/ssl/certs/ \
    && echo 'twitter-updater:x:65532:65532::/data:' >etc/passwd \
    && echo 'hosts: files dns' >etc/nsswitch.conf \
    && chmod 1777 tmp \
    && chown 65532:65532 data

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="twitter-updater" \
      org.opencontainers.image.description="Re-fetches the counts and text of the posts you store, each as often as its age deserves, within your API quota" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=root /image /
# Its parts (CycloneDX) and their licences.
COPY licenses LICENSE-APACHE LICENSE-MIT /usr/share/doc/twitter-updater/
# rustls reads the certificates of the system, which here is this file. A role in a container serves its probes
# and figures unless it is told otherwise.
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    PATH=/usr/local/bin \
    TWITTER_UPDATER__HTTP__LISTEN=0.0.0.0:8080
# By number: Kubernetes cannot tell from a name that it is not root.
USER 65532:65532
# Where the embedded queue and store keep their file. Nothing else is ever written: the root file system
# may be read-only, with a volume here (and one at /tmp for the demo).
WORKDIR /data
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["/usr/local/bin/twitter-updater", "health"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/twitter-updater"]
CMD ["--help"]
