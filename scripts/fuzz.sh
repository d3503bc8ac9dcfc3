#!/usr/bin/env bash
# usage: fuzz.sh length
# Runs every fuzz target of the module, one after another, for the given length,
# a time or a number of inputs as go test's -fuzztime has them: go test fuzzes
# one target of one package at a time.
set -euo pipefail
cd "$(dirname "$0")/.."

grep -rE '^func Fuzz' --include='*_test.go' --exclude-dir=node_modules . | sort |
	sed -E 's|^(.*)/[^/]*:func (Fuzz[A-Za-z0-9_]*).*|\1 \2|' |
	while read -r package target; do
		echo "fuzz $package $target"
		go test -fuzzminimizetime 100x -run '^$' -fuzz "^$target\$" -fuzztime "$1" "$package" </dev/null
	done
