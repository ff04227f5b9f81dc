#!/bin/sh
# The tests under the lowest versions of all dependencies that pyproject.toml allows, and under the newest ones on every
# later Python that is there; a Python that is not there is named and skipped.
#
#   sh benchmarks/versions.sh               all of them
#   sh benchmarks/versions.sh lowest 3.13   some of them
#
# PYTEST_ADDOPTS reaches pytest: PYTEST_ADDOPTS=--lf sh benchmarks/versions.sh 3.13 repeats what failed there.
set -eu
cd "$(dirname "$0")/.."
folder=.venv-versions
uv=$folder/uv/bin/uv
#: The Python of the lowest versions is the lowest one that pyproject.toml allows.
lowest_python=3.11

[ -x "$uv" ] || { "${PYTHON:-python3}" -m venv $folder/uv && $folder/uv/bin/python -m pip install --quiet --disable-pip-version-check uv; }
[ $# -gt 0 ] || set -- lowest 3.12 3.13 3.14

# A Python that runs, by its version: as python3.X, or of pyenv, whose command of that name may only say that it does not.
find_python() {
    for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
        if "$candidate" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

failed=""
skipped=""
for name in "$@"; do
    version=$name resolution=highest
    [ "$name" != lowest ] || { version=$lowest_python resolution=lowest-direct; }
    if ! python=$(find_python "$version"); then
        echo "Python $version is not here: skipped ($name)" >&2
        skipped="$skipped $name"
        continue
    fi
    environment=$folder/$name
    [ -x "$environment/bin/python" ] || $uv venv --quiet --seed --python "$python" "$environment"
    $uv pip install --quiet --upgrade --python "$environment" --resolution "$resolution" --editable ".[dev]"
    echo "$name: $("$environment/bin/python" --version)"
    "$environment/bin/python" -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder -o "cache_dir=$environment/pytest_cache" || failed="$failed $name"
done
[ -z "$skipped" ] || echo "skipped, no such Python:$skipped"
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
