#!/usr/bin/env bash
# Runs unchanged client libraries against real servers:
#
#	clients/compat/run.sh LANGUAGE...      go node python hiredis java rust
#	clients/compat/run.sh go-groups node-groups python-groups java-groups
#	                                       the leader of a cluster is killed: twelve groups, or $HGTEST_GROUPS
#	clients/compat/run.sh sdk-go           the modules of our own client for Go
#	clients/compat/run.sh sdk-python       the quick tests of our own package for Python
#	clients/compat/run.sh sdk-typescript   and of the one for Node; sdk-typescript-long runs all of them
#
# A suite finds its servers in its environment. Go and hiredis start their own,
# with the same package (internal/hgtest); for the others it is clients/compat/go/withservers
# that starts three, on free ports of the loopback interface, and stops them:
#
#	HGTEST_BIN        the server's executable, for tests that start, kill and restart their own
#	HGTEST_ADDR       host:port of a plain server
#	HGTEST_AUTH_ADDR  host:port of a server with a password
#	HGTEST_PASSWORD   that password
#	HGTEST_TLS_ADDR   host:port of a server that speaks TLS
#	HGTEST_TLS_CA     PEM file of the authority that signed its certificate
#	HGTEST_CLUSTER    clients/compat/go/cluster, for tests that kill the leader of a cluster
#
# The server is built from this tree, or $HEADGATE_BIN. Libraries come from
# their registries in the versions that the suites pin, into directories that git ignores.
# Needs Go, and of the languages asked for: Node 20 with npm, Python 3.11 with venv, redis-cli and
# redis-benchmark, JDK 17 with Maven, Rust with cargo.
# Two suites run at a time, since they wait more than they compute; what one prints comes once it has ended.
# The exit status is not 0 if any suite fails; the others run all the same.
set -euo pipefail
cd "$(dirname "$0")/../.."

[ $# -gt 0 ] || { echo "usage: clients/compat/run.sh go|node|python|hiredis|java|rust|go-groups|node-groups|python-groups|java-groups|sdk-go|sdk-python|sdk-typescript|sdk-typescript-long ..." >&2; exit 2; }

if [ -n "${HEADGATE_BIN:-}" ]; then
	HGTEST_BIN=$(realpath "$HEADGATE_BIN")
else
	HGTEST_BIN=$PWD/bin/hgtest-headgate
	go build -o "$HGTEST_BIN" ./cmd/headgate
fi
go build -o bin/hgtest-cluster ./clients/compat/go/cluster
HGTEST_CLUSTER=$PWD/bin/hgtest-cluster
export HGTEST_BIN HGTEST_CLUSTER
# To the server it would be a parameter, and an unknown one.
unset HEADGATE_BIN

with_servers() { go run ./clients/compat/go/withservers "$@"; }

# stale SOURCE STAMP: whether what was installed is older than what names it.
stale() { [ ! -e "$2" ] || [ "$1" -nt "$2" ]; }

# Every suite has a time limit: one that hangs is a failed one. The functions
# check each step, since the shell does not where a caller takes the status.

run_go() { timeout 240 go test -count=1 ./clients/compat/go/...; }

run_hiredis() { timeout 180 go test -count=1 ./clients/compat/hiredis; }

run_node() {
	install_node && with_servers timeout 240 npm --prefix clients/compat/node test
}

install_node() {
	local dir=clients/compat/node
	if stale $dir/package-lock.json $dir/node_modules/.package-lock.json; then
		npm --prefix $dir ci || return
	fi
}

run_python() {
	install_python && with_servers timeout 240 clients/compat/python/.venv/bin/python -m pytest -c clients/compat/python/pytest.ini clients/compat/python/tests
}

install_python() {
	local dir=clients/compat/python
	if stale $dir/requirements.txt $dir/.venv/installed; then
		python3 -m venv $dir/.venv &&
			$dir/.venv/bin/pip install -q -r $dir/requirements.txt &&
			touch $dir/.venv/installed || return
	fi
}

# The tests of killed leaders, with several groups and with the libraries' own retries.
groups=${HGTEST_GROUPS:-12}

run_go-groups() { HGTEST_GROUPS=$groups timeout 600 go test -count=1 -v -run 'LeaderKilled|Shard|Recipes' ./clients/compat/go; }

run_node-groups() {
	install_node && HGTEST_GROUPS=$groups with_servers timeout 600 npm --prefix clients/compat/node test -- --test-name-pattern=killed test/failover.test.js
}

run_python-groups() {
	local dir=clients/compat/python
	install_python && HGTEST_GROUPS=$groups with_servers timeout 600 $dir/.venv/bin/python -m pytest -c $dir/pytest.ini -s -k killed $dir/tests/test_failover.py
}

run_java-groups() { HGTEST_GROUPS=$groups with_servers timeout 900 mvn -B -ntp -f clients/compat/java/pom.xml test -Dtest='FailoverTest*'; }

run_sdk-go() { make --no-print-directory modules; }

run_sdk-python() {
	local dir=clients/python
	if stale $dir/requirements.txt $dir/.venv/installed; then
		python3 -m venv $dir/.venv &&
			$dir/.venv/bin/pip install -q -r $dir/requirements.txt &&
			touch $dir/.venv/installed || return
	fi
	(cd $dir && .venv/bin/mypy && timeout 180 .venv/bin/python -m pytest -m "not slow")
}

run_sdk-typescript() {
	local dir=clients/typescript
	if stale $dir/package-lock.json $dir/node_modules/.package-lock.json; then
		npm --prefix $dir ci || return
	fi
	timeout 240 npm --prefix $dir test
}

run_sdk-typescript-long() { LONG=1 run_sdk-typescript; }

run_java() { with_servers timeout 900 mvn -B -ntp -f clients/compat/java/pom.xml test; }

run_rust() { with_servers timeout 900 cargo test --locked --manifest-path clients/compat/rust/Cargo.toml; }

for language; do
	case $language in
	go | hiredis | node | python | java | rust | go-groups | node-groups | python-groups | java-groups | sdk-go | sdk-python | sdk-typescript | sdk-typescript-long) ;;
	*)
		echo "clients/compat/run.sh: unknown language '$language'" >&2
		exit 2
		;;
	esac
done

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# one LANGUAGE: runs a suite, and prints the whole of what it printed.
one() {
	local began=$SECONDS status=0
	"run_$1" >"$logs/$1" 2>&1 || status=$?
	[ $status -eq 0 ] || touch "$logs/$1.failed"
	flock "$logs" sh -c 'echo "== $1, $2 s"; cat "$3"' sh "$1" $((SECONDS - began)) "$logs/$1"
}

if [ $# -eq 1 ]; then
	echo "== $1"
	"run_$1" || touch "$logs/$1.failed"
else
	for language; do
		while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n || true; done
		one "$language" &
	done
	wait
fi
failed=()
for language; do
	[ ! -e "$logs/$language.failed" ] || failed+=("$language")
done
if [ ${#failed[@]} -gt 0 ]; then
	echo "clients/compat/run.sh: failed: ${failed[*]}" >&2
	exit 1
fi
