#!/usr/bin/env bash
# Installs LiteLLM for the tests of examples/litellm, unless it is there. It takes some two
# minutes, and 700 MB.
set -euo pipefail

cd "$(dirname "$0")/../examples/litellm"
if [ requirements.txt -nt .venv/installed ]; then
	python3 -m venv .venv
	.venv/bin/pip install -q -r requirements.txt
	touch .venv/installed
fi
