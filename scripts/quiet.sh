#!/usr/bin/env bash
# Prints the packages with tests that start no process: neither they nor their tests
# import what does so.
set -euo pipefail
cd "$(dirname "$0")/.."

go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}} {{end}}' ./... |
	grep -vE ' (os/exec|[^ ]*/internal/(hgtest|subprocess|redisserver|redistest)) ' | cut -d' ' -f1
