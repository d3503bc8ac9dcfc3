#!/usr/bin/env bash
# usage: fuzz.sh time
# Runs every fuzz target of the module for the given time, one after another:
# go test fuzzes one target of one package at a time.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=$(go list ./...)
for package in $packages; do
	targets=$(go test -list '^Fuzz' "$package" | { grep '^Fuzz' || true; })
	for target in $targets; do
		echo "fuzz $package $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$1" "$package"
	done
done
