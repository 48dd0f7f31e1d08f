# Image of a binary for Linux that `make build` has made; `make image` does both and
# lays out the context (dist/image: the binary and what it is made of, the CA roots,
# an empty tmp). With another builder:
#
#	make build && deploy/image-context.sh bin/eosbridge v1.2.3 2026-11-30T12:00:00Z && docker build -f Dockerfile dist/image
FROM scratch

ARG VERSION=dev
ARG COMMIT=unknown
ARG DATE=unknown
LABEL org.opencontainers.image.title="eosbridge" \
      org.opencontainers.image.description="Exactly-once bridge between Kafka topics" \
      org.opencontainers.image.url="https://github.com/eosbridge/eosbridge" \
      org.opencontainers.image.source="https://github.com/eosbridge/eosbridge" \
      org.opencontainers.image.documentation="https://github.com/eosbridge/eosbridge#readme" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}" \
      org.opencontainers.image.created="${DATE}"

COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
# What it is made of: licences that ask to be handed on, and a list for scanners.
COPY THIRD_PARTY.txt eosbridge.cdx.json /usr/share/doc/eosbridge/
# Only `demo` writes: its broker keeps its data here. All else runs read-only.
COPY --chown=65532:65532 tmp /tmp
COPY eosbridge /usr/bin/eosbridge

USER 65532:65532
ENV BRIDGE_HTTP_ADDR=:9464
EXPOSE 9464
STOPSIGNAL SIGTERM
# Alive, not ready: a bridge that waits for its brokers is not mended by a
# restart. Kubernetes has probes of its own and ignores this.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["/usr/bin/eosbridge", "status", "--healthcheck"]
# No shell in between: SIGTERM reaches the bridge itself.
ENTRYPOINT ["/usr/bin/eosbridge"]
CMD ["run"]
