#!/usr/bin/env bash
# usage: stages.sh target...
# Makes the targets one after another, until one fails, and says how long each took.
set -euo pipefail
cd "$(dirname "$0")/.."

took=""
trap 'echo "seconds:$took = $SECONDS"' EXIT
for target; do
	began=$SECONDS
	status=0
	make --no-print-directory "$target" || status=$?
	took+=" $target $((SECONDS - began))"
	[ $status -eq 0 ] || exit $status
done
