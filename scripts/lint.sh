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
bin/vale --config docs/style/vale.ini --output line $(ls *.md | grep -v CHANGELOG)
