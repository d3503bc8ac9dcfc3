#!/usr/bin/env bash
# Fails on code that gofmt would change, or that go vet or staticcheck object to, and on
# texts that break docs/style.
set -euo pipefail
cd "$(dirname "$0")/.."

unformatted=$(git ls-files -co --exclude-standard '*.go' | xargs -r gofmt -l)
if [ -n "$unformatted" ]; then
	echo "not formatted (make fmt):" "$unformatted" >&2
	exit 1
fi
go vet ./...
bin/staticcheck ./...
for module in $(sed -n "s/^MODULES *:= //p" Makefile); do
	(cd $module && go vet ./... && "$OLDPWD/bin/staticcheck" ./...)
done
# Every comment, and every document except measured results.
git ls-files -co --exclude-standard '*.go' | xargs bin/vale --config docs/style/vale.ini --output line $(git ls-files -co --exclude-standard '*.md' docs/llms.txt ':!bench/results')
