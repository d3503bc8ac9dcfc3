#!/usr/bin/env bash
# usage: fuzz.sh length [unguided]
# Runs every fuzz target of the module, one after another, for the given length,
# a time or a number of inputs as go test's -fuzztime has them. It is what go test
# does, but that links a package's test binary again for each of its targets, and
# compiles all packages of others for its guidance: here our own guide it, or, for
# a few inputs, nothing, so that the packages are those that have been compiled for
# other tests.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
guidance=(-gcflags=github.com/headgate-io/headgate/...=-d=libfuzzer)
[ "${2:-}" != unguided ] || guidance=()
corpus=$(go env GOCACHE)/fuzz # inputs of earlier runs that reached something new

grep -rlE '^func Fuzz' --include='*_test.go' --exclude-dir=node_modules . | xargs -n 1 dirname | sort -u >"$dir/packages"
while read -r package <&3; do
	go test -c "${guidance[@]}" -ldflags='-s -w' -o "$dir/fuzz.test" "$package"
	path=$(go list "$package")
	cd "$package" # its inputs are there, and one that fails is written there
	for target in $("$dir/fuzz.test" -test.list '^Fuzz'); do
		echo "fuzz $package $target"
		"$dir/fuzz.test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$1" \
			-test.fuzzminimizetime 100x -test.fuzzcachedir "$corpus/$path" -test.paniconexit0
	done
	cd "$root"
done 3<"$dir/packages"
