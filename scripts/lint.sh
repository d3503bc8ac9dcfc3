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
# Every program comment but those of the harness; documents that have been gone through.
git ls-files '*.go' | grep -vE '^(bench|clients|examples|faults)/' |
	xargs bin/vale --config docs/style/vale.ini --output line $(ls *.md | grep -v CHANGELOG) \
		engine/algo/DESIGN.md engine/packed/DESIGN.md policy/*DESIGN.md policy/*/DESIGN.md resp/DESIGN.md \
		server/checks/DESIGN.md server/pubsub/DESIGN.md server/scripts/DESIGN.md
