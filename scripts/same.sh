#!/usr/bin/env bash
# usage: same.sh pattern package...
# Prints, for go test -skip, the tests of these packages that are the same with -short and
# under the race detector: the pattern is neither in them nor in what they use of their
# package's test files. It leaves out names that other tests of the repository bear, too.
set -euo pipefail
cd "$(dirname "$0")/.."

pattern=$1
shift
awk -v pattern="$pattern" -v packages=" $* " '
	function leave_package(f, d, found) { # f, d and found are local
		do {
			found = 0
			for (f in body) for (d in differ) if (!(f in differ) && ("" in differ || body[f] ~ "(^|[^A-Za-z0-9_])" d "([^A-Za-z0-9_]|$)")) {
				differ[f]
				found = 1
			}
		} while (found)
		for (f in body) if (f ~ /^Test/ && raced && !(f in differ)) same[f]; else others[f]
		split("", body)
		split("", differ)
	}
	FNR == 1 {
		dir = FILENAME
		sub("/[^/]*$", "", dir)
		if (dir != last) leave_package()
		last = dir
		raced = index(packages, " " dir " ")
		name = "" # what is outside functions
	}
	/^[[:space:]]*\/\// && !/^\/\/go:build/ { next }
	/^func / { name = $0; sub(/^func (\([^)]*\) )?/, "", name); sub(/[^A-Za-z0-9_].*/, "", name) }
	raced || /^func / { body[name] = body[name] "\n" $0 }
	raced && ($0 ~ pattern || /^\/\/go:build.*race/) { differ[name] }
	/^}/ || /^func .*}$/ { name = "" }
	END { leave_package(); for (f in same) if (!(f in others)) print f }
' $(find . -name '*_test.go' -not -path '*/node_modules/*' -printf '%h %p\n' | sort | cut -d' ' -f2) | sort | paste -sd'|' | sed 's/.*/^(&)$/'
