# A base that is an image by digest, with Drydock's Debian packages installed. Context base: that image.
FROM base
ARG PACKAGES
ARG LIST
ARG TIDY
WORKDIR /
RUN --mount=type=cache,id=drydock-apt,target=/var/cache/apt,sharing=locked \
    --mount=type=cache,id=drydock-apt-lists,target=/var/lib/apt/lists,sharing=locked \
    --mount=type=bind,source=with-network,target=/usr/local/bin/with-network \
    --mount=type=tmpfs,target=/tmp \
    --mount=type=secret,id=network --mount=type=secret,id=ca \
    export DEBIAN_FRONTEND=noninteractive; rm -f /etc/apt/apt.conf.d/docker-clean; \
    with-network apt-get update -q && \
    with-network apt-get install -qy --no-install-recommends $PACKAGES && \
    mkdir -p /usr/share/drydock && { sh -c "$LIST" > /usr/share/drydock/debian-packages; } && \
    sh -c "$TIDY" && rm -rf /var/log/apt /var/log/dpkg.log /var/cache/ldconfig
