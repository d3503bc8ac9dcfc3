#!/usr/bin/env bash
# Runs three nodes on this machine, with data in a temporary directory, until
# Ctrl-C. Clients: 7379, 7389, 7399; HTTP: 7380, 7390, 7400; peers: 7381, 7391,
# 7401. Arguments go to every node, such as --durability sync.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d "${TMPDIR:-/tmp}/headgate-cluster.XXXXXX")
secret=$dir/peer.secret
(umask 077 && head -c 32 /dev/urandom | base64 >"$secret")
pids=()

# By their data, since any may have been killed and brought back by hand.
nodes() {
	grep -lsz -- "^\(--data-dir=\)\?$dir/n" /proc/[0-9]*/cmdline | cut -d/ -f3 || true # others end meanwhile
}

stop() {
	trap - EXIT INT TERM
	echo "stopping"
	for pid in $(nodes); do
		kill "$pid" 2>/dev/null || true # it may have ended meanwhile
	done
	while [ -n "$(nodes)" ]; do
		sleep 0.1
	done
	rm -rf "$dir"
}
trap stop EXIT
trap 'exit 0' INT TERM

for i in 1 2 3; do
	port=$((7369 + 10 * i))
	# In a process group of its own: Ctrl-C reaches this script only, which
	# stops the nodes in order.
	set -m
	bin/headgate serve --node-id "n$i" --data-dir "$dir/n$i" \
		--listen "127.0.0.1:$port" --http-listen "127.0.0.1:$((port + 1))" --peer-listen "127.0.0.1:$((port + 2))" \
		--bootstrap-expect 3 --join 127.0.0.1:7381,127.0.0.1:7391,127.0.0.1:7401 \
		--peer-secret-file "$secret" "$@" 2>"$dir/n$i.log" &
	set +m
	pids+=($!)
done

# Until there is a leader and the nodes have heard of each other.
for _ in $(seq 100); do
	if status=$(bin/headgate cluster status --peer-secret-file "$secret" 2>/dev/null) && ! grep -qE '^leader none| down ' <<<"$status"; then
		break
	fi
	for i in 1 2 3; do
		if ! kill -0 "${pids[i - 1]}" 2>/dev/null; then
			cat "$dir/n$i.log" >&2
			exit 1
		fi
	done
	sleep 0.1
done

cat <<END
${status:-no leader yet; see the logs}

Any node answers:    redis-cli -p 7379 RL.LIMIT user:1 100 60
Another sees it:     redis-cli -p 7399 RL.LIMIT user:1 100 60
The nodes:           bin/headgate cluster status --peer-secret-file $secret
Hand over:           bin/headgate cluster transfer --peer-secret-file $secret
Kill one:            kill -9 ${pids[0]}   (n1; n2 is ${pids[1]}, n3 is ${pids[2]})
Logs and data:       $dir

Ctrl-C stops all three, also those brought back by hand, and removes their data.
END
while sleep 1; do :; done
