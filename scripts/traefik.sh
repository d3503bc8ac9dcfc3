#!/usr/bin/env bash
# Builds Traefik from its Go module into examples/traefik/.bin, unless it is there: neither
# Debian nor a registry of Go tools has it. It takes some ten minutes of a processor, and
# 3 GB in Go's caches. The module has no console (webui), which nobody needs here.
set -euo pipefail

version=v3.6.0
bin="$(cd "$(dirname "$0")/.." && pwd)/examples/traefik/.bin"
if [ "$(cat "$bin/version" 2>/dev/null)" = "$version" ]; then
	exit 0
fi
tmp="$(mktemp -d)"
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
go mod init traefik.invalid/build 2>/dev/null
dir="$(go mod download -json "github.com/traefik/traefik/v3@$version" | sed -n 's/^\s*"Dir": "\(.*\)",\?$/\1/p')"
cp -r "$dir" source
chmod -R u+w source
mkdir -p "$bin"
(cd source && go build -o "$bin/traefik" ./cmd/traefik)
echo "$version" >"$bin/version"
