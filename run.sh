#!/bin/sh
# Commands that set everything up themselves; nothing but Python 3.11 or newer is needed.
#
#   sh run.sh demo        a frontier of a real model on real hardware, and its picture
#   sh run.sh test        every check and test but the long ones; with a PATH its tests alone
#   sh run.sh long        tests that take their time: all measured servers, all documents, made-up inputs (5 minutes)
#   sh run.sh check       ruff, types and the walls of the house (a minute)
#   sh run.sh reproduce   every table and figure of the published study, into figures/
#   sh run.sh validate    predictions against every measured server, into docs/evidence/validation.md
#   sh run.sh measurements  tables of measured servers from the published ones, into scenarios/measured/servers (seconds)
#   sh run.sh profiles    every fitted profile again, into scenarios/assumptions/profiles/ (25 minutes)
#   sh run.sh levels      levels of measured servers over every profile, into scenarios/assumptions/levels/ (2 minutes; --judge
#                         for rows that they have not seen, into docs/evidence/levels.md, 5 minutes more)
#   sh run.sh power FOLDER  power of chips fitted to the energy runs of ML.ENERGY, whose files are given (public/data/tasks of a
#                         checkout of its leaderboard), into scenarios/assumptions/power/ and docs/evidence/power.md (seconds)
#   sh run.sh priors      frontiers of models of every size, into scenarios/assumptions/priors/frontiers.csv (10 minutes)
#   sh run.sh kernels     curves of kernels fitted to public tables (an environment of its own, 300 MB)
#   sh run.sh closed-loop closed forms of loops and streams beside the same played step by step, into docs/evidence/closed_loop.md
#                         (15 minutes)
#   sh run.sh launchable  which default answers can be typed into an engine, into docs/evidence/startable_answers.md (5 minutes)
#   sh run.sh published-counts  parameters of published classes, which the importer is held against (1 GB, 20 minutes)
#   sh run.sh error-correlations  whether errors of predictions go together (2 minutes)
#   sh run.sh error-spreads       how far intervals of 80 % reach by engine, and how many deployments they hold (a minute)
#   sh run.sh scoreboard  every predictor that can be installed on the same measured servers, into docs/evidence/scoreboard.md
#                         (an environment of its own, 1 GB; 5 minutes)
#   sh run.sh contradictions  random setups asked twice, into docs/evidence/contradictions.md (4 minutes; --cases for fewer)
#   sh run.sh fuzz        made-up inputs, which must be answered or refused (an hour, --minutes for less; goes on where it was)
#   sh run.sh sweep-kills a sweep killed a hundred times at random moments, which loses and repeats no row (10 minutes;
#                         --kills for fewer)
#   sh run.sh versions    the tests under the lowest and the newest dependencies, on every Python that is there
#   sh run.sh readme      the commands of README.md and of the documents, with what they print now; or of FILES alone
#   sh run.sh docs        the documents as pages, into docs/_build/html (open index.html; no server is needed)
#   sh run.sh pages FOLDER  every page in every form, to be compared before and after a change of structure (2 minutes)
#   sh run.sh golden [WORD...]  golden pages of the tests anew, into tests/golden (2 minutes; with words only pages that contain one)
#   sh run.sh sturdiness  attacks with their counts, into docs/evidence/sturdiness.md (10 minutes)
#   sh run.sh release     wheel and sdist of the last commit, built twice and compared, with sums and an SBOM, into dist/
#   sh run.sh audit       known weaknesses of every package that is installed (an environment of its own; asks pypi.org)
#   sh run.sh benchmark   speed against the naive way
#   sh run.sh command-benchmark   whole commands, over the time of an interpreter with numpy (a minute; --rounds for more)
#   sh run.sh explorer-benchmark  the explorer over HTTP: its start, changed controls, 50 users at once (3 minutes)
#   sh run.sh explorer-fuzz       10,000 requests made from its OpenAPI document (an hour)
set -eu
cd "$(dirname "$0")"
# Every command starts many processes: where compiled modules may not be kept, each would compile all of them again.
unset PYTHONDONTWRITEBYTECODE

find_python() {
    for candidate in "${PYTHON:-python3}" python3.13 python3.12 python3.11 python; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "Python 3.11 or newer is needed and was not found; name one with PYTHON=/path/to/python" >&2
    exit 2
}

# A virtual environment in .venv, installed again when pyproject.toml is newer. $1: what to install.
set_up() {
    stamp=".venv/installed-$2"
    if [ ! -e "$stamp" ] || [ pyproject.toml -nt "$stamp" ]; then
        python=$(find_python)
        [ -x .venv/bin/python ] || "$python" -m venv .venv
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable "$1"
        touch "$stamp"
    fi
}

# Chromium for the tests of the page, where it can be installed without a word; those tests say what to do where not.
set_up_browser() {
    for name in chromium chromium-browser google-chrome-stable google-chrome; do
        if command -v "$name" >/dev/null; then return; fi
    done
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium fonts-dejavu; } >/dev/null 2>&1 && return
    fi
    echo "Chromium cannot be installed here: the tests of the page in a browser are skipped, and fail where CI=true; 'apt-get install chromium' as root mends it" >&2
}

check() {
    .venv/bin/ruff check .
    .venv/bin/ruff format --check .
    .venv/bin/lint-imports
    .venv/bin/mypy
}

case "${1:-}" in
demo)
    set_up . package
    .venv/bin/inference-econ frontier llama_3_70b h100_sxm --weights fp8 --plot frontier.svg
    ;;
check)
    set_up ".[dev]" dev
    check
    ;;
test)
    set_up ".[dev]" dev
    shift
    if [ $# -gt 0 ]; then
        exec .venv/bin/python -m pytest "$@"
    fi
    set_up_browser
    # Types take a minute of one core, which tests can use as well.
    check >.venv/check.txt 2>&1 &
    checks=$!
    # Tests that share what takes long run in one process (tests/conftest.py), and what takes longest begins first.
    .venv/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not long" || failed=$?
    wait "$checks" || failed=$?
    cat .venv/check.txt
    exit "${failed:-0}"
    ;;
long)
    set_up ".[dev]" dev
    set_up_browser
    .venv/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m long
    ;;
reproduce)
    set_up ".[studies]" studies
    .venv/bin/inference-econ paper reproduce
    ;;
measurements)
    set_up ".[studies]" studies
    .venv/bin/python -m data.measurements
    ;;
power)
    set_up ".[studies]" studies
    shift
    .venv/bin/python -m data.power "$@"
    ;;
traffic)
    set_up ".[studies]" studies
    .venv/bin/python -m data.traffic "$2"
    ;;
priors)
    set_up ".[studies]" studies
    .venv/bin/python -m data.prior_frontiers
    ;;
validate)
    set_up ".[studies]" studies
    .venv/bin/python -m benchmarks.validation
    ;;
profiles)
    set_up ".[studies]" studies
    sh data/profiles.sh
    ;;
levels)
    set_up ".[studies]" studies
    shift
    .venv/bin/python -m data.levels "$@"
    ;;
kernels)
    # The tables are 82 MB and no part of the package: they and what reads them stay out of its environment.
    [ -x .venv-kernels/bin/python ] || "$(find_python)" -m venv .venv-kernels
    .venv-kernels/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[studies]"
    .venv-kernels/bin/python -m pip install --quiet --disable-pip-version-check --no-deps aiconfigurator-core==0.12.0
    shift
    .venv-kernels/bin/python -m data.kernel_tables "$@"
    ;;
closed-loop)
    set_up ".[studies]" studies
    .venv/bin/python -m benchmarks.closed_loop
    .venv/bin/python -m benchmarks.streams
    ;;
launchable)
    set_up ".[studies]" studies
    .venv/bin/python -m benchmarks.launchable
    ;;
published-counts)
    # The classes need PyTorch: an environment of their own, which nothing else uses.
    [ -x .venv-published/bin/python ] || "$(find_python)" -m venv .venv-published
    .venv-published/bin/python -m pip install --quiet --disable-pip-version-check --editable . torch==2.13.0 transformers==5.24.0
    HF_HUB_OFFLINE=1 .venv-published/bin/python -W ignore -m data.published_counts
    ;;
error-correlations)
    set_up ".[studies]" studies
    .venv/bin/python -m benchmarks.error_correlations
    ;;
error-spreads)
    set_up ".[studies]" studies
    .venv/bin/python -m benchmarks.error_spreads
    ;;
scoreboard)
    # Other predictors have dependencies of their own, and stay out of the environment of the package.
    [ -x .venv-scoreboard/bin/python ] || "$(find_python)" -m venv .venv-scoreboard
    .venv-scoreboard/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[studies]" aiconfigurator==0.12.0
    .venv-scoreboard/bin/python -m benchmarks.scoreboard
    ;;
contradictions)
    set_up ".[studies]" studies
    shift
    .venv/bin/python -m benchmarks.contradictions "$@"
    ;;
fuzz)
    set_up ".[dev]" dev
    shift
    .venv/bin/python -m tests.fuzz "$@"
    ;;
sweep-kills)
    set_up ".[dev]" dev
    shift
    .venv/bin/python -m benchmarks.sweep_kills "$@"
    ;;
versions)
    shift
    PYTHON=$(find_python) sh benchmarks/versions.sh "$@"
    ;;
readme)
    set_up ".[dev]" dev
    shift
    .venv/bin/python -m benchmarks.transcripts "$@"
    ;;
docs)
    set_up ".[docs]" docs
    # -W: a link that leads nowhere, or a name that is gone, is an error; a notebook that fails too.
    .venv/bin/python -m sphinx -W --keep-going --quiet -b html docs docs/_build/html
    echo "docs/_build/html/index.html"
    ;;
pages)
    set_up ".[studies]" studies
    shift
    .venv/bin/python -m benchmarks.pages "$@"
    ;;
golden)
    set_up ".[dev]" dev
    shift
    .venv/bin/python -m benchmarks.pages --golden "$@"
    ;;
sturdiness)
    set_up ".[dev]" dev
    shift
    .venv/bin/python -m benchmarks.sturdiness "$@"
    ;;
release)
    set_up ".[dev]" dev
    .venv/bin/python -m benchmarks.release
    ;;
audit)
    set_up ".[dev]" dev
    [ -x .venv-audit/bin/python ] || "$(find_python)" -m venv .venv-audit
    .venv-audit/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip-audit
    shift
    .venv-audit/bin/pip-audit --path "$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" "$@" >.venv-audit/said.txt 2>&1 || failed=$?
    cat .venv-audit/said.txt
    # What nobody knows anything of is no weakness for pip-audit: without a network all packages are that.
    if grep -v '^inference-econ ' .venv-audit/said.txt | grep -q "could not be audited"; then
        echo "audit: some packages were not found on pypi.org: nothing is known of them" >&2
        exit 1
    fi
    exit "${failed:-0}"
    ;;
benchmark)
    set_up ".[dev]" dev
    .venv/bin/python -m benchmarks.run
    ;;
command-benchmark)
    set_up ".[dev]" dev
    shift
    .venv/bin/python -m benchmarks.commands "$@"
    ;;
explorer-benchmark)
    set_up ".[dev]" dev
    shift
    .venv/bin/python -m benchmarks.explorer "$@"
    ;;
explorer-fuzz)
    set_up ".[dev]" dev
    shift
    .venv/bin/python -m benchmarks.explorer_fuzz "$@"
    ;;
*)
    echo "usage: sh run.sh demo | test | long | check | reproduce | power | traffic | priors | validate | measurements | profiles | levels | kernels | closed-loop | launchable | published-counts | error-correlations | error-spreads | scoreboard | contradictions | fuzz | sweep-kills | versions | readme | docs | pages | golden | sturdiness | release | audit | benchmark | command-benchmark | explorer-benchmark | explorer-fuzz" >&2
    exit 2
    ;;
esac
