# Tributary as a container: built with everything, run with nothing but what runs. Not root, and the root file system may
# be read-only: what is written goes to the volume (docs/operations.md).
FROM node:20-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund --ignore-scripts
COPY tsconfig.json bundle.js program.js start.js keep.js ./
COPY src ./src
COPY sandbox ./sandbox
COPY test ./test
COPY bench ./bench
COPY config ./config
COPY console ./console
# The demo world is a workspace with packages of its own, and not in the image.
RUN npm run build && npm pkg delete workspaces && npm prune --omit=dev --no-audit --no-fund

FROM node:20-bookworm-slim
ENV NODE_ENV=production
# glibc gives the memory of replaced snapshots back (docs/operations.md, "Sizing").
ENV MALLOC_MMAP_THRESHOLD_=131072
WORKDIR /app
RUN install -d -o node -g node -m 0700 /var/lib/tributary
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist/program ./dist/program
COPY package.json ./
COPY config ./config
COPY console ./console
USER node
VOLUME /var/lib/tributary
EXPOSE 8080
# Alive, not ready: a server that still waits for its upstreams must not be restarted for it.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:8080/healthz').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# Answers in flight are finished first; none takes longer than this.
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "dist/program/main.js"]
CMD ["serve", "--config", "/etc/tributary/config.yaml"]
