#!/usr/bin/env bash
# All tests of the package, then: build it, install the wheel and the sdist each into an empty
# environment, and run the README's examples there.
set -euo pipefail
cd "$(dirname "$0")"
../compat/run.sh sdk-python # installs what tests need
go build -C ../.. -o "$PWD/.bin/headgate" ./cmd/headgate
export HGTEST_BIN=$PWD/.bin/headgate
.venv/bin/python -m pytest -m slow

# The quick tests with the other versions of Python that the machine has.
for version in 3.10 3.12 3.13; do
	found=
	for python in "$(command -v "python$version")" ~/.pyenv/versions/"$version".*/bin/python; do
		[ -z "$found" ] && "$python" -c 'import ssl, venv' 2>/dev/null && found=$python
	done
	if [ -z "$found" ]; then
		echo "there is no Python $version here: its tests are left out"
		continue
	fi
	venv=.venv/$version
	if [ ! "$venv/installed" -nt requirements.txt ]; then
		"$found" -m venv "$venv"
		"$venv/bin/pip" install -q -r requirements.txt
		touch "$venv/installed"
	fi
	"$venv/bin/python" -m pytest -m "not slow"
done

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
.venv/bin/python -m hatchling build -d "$dir/dist" >/dev/null
install() { # NAME PACKAGES...
	python3 -m venv "$dir/$1"
	"$dir/$1/bin/pip" install -q -c requirements.txt "${@:2}"
}
# The sdist needs the build tool, without a look into the network for it.
install wheel "$dir"/dist/*.whl pytest fastapi uvicorn Flask Flask-Limiter Django slowapi httpx requests
.venv/bin/pip wheel -q --no-deps --no-build-isolation -w "$dir/rebuilt" "$dir"/dist/*.tar.gz
install sdist "$dir"/rebuilt/*.whl
"$dir/sdist/bin/python" -c 'import headgate_client, pathlib
assert (pathlib.Path(headgate_client.__file__).parent / "py.typed").exists()'
cp README.md pyproject.toml "$dir/"
cp -r tests "$dir/tests"
cd "$dir"
HEADGATE_INSTALLED=1 wheel/bin/python -m pytest -o pythonpath=tests tests/test_readme.py
