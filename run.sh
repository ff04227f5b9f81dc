#!/bin/sh
# Commands of a checkout. Each sets up the environment that it needs; only Python 3.11 or newer must be there.
# `sh run.sh` prints the list below.
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

# Print the commands. Arguments in brackets may be left out.
help() {
    cat <<'END'
usage: sh run.sh COMMAND
  demo                plot a frontier of a real model on real hardware
  test [PATH...]      run all checks and all tests except the long ones, or the tests of a file or folder
  long                run the tests that take minutes: all measured servers, all documents, generated inputs
  check [NAME]        run ruff, mypy and the import contracts; or audit, versions
  docs                build the documents as web pages, into docs/_build/html
  renew NAME          renew readme (transcripts of documents), golden (pages of the tests) or pages FOLDER
  reproduce           write every table and figure of the published study, into figures/
  validate [NAME]     compare predictions with all measured servers; or another comparison of docs/evidence
  refit NAME          fit profiles and other assumptions to published data again
  benchmark [NAME]    time the cost model; or commands, explorer
  sturdiness [NAME]   count attacks that the program withstands; or explorer, fuzz, orders, sweep-kills
  release             build the wheel and the archive of the last commit twice, into dist/
END
}

# Report a wrong command or argument, and print the right ones. $1: what is wrong.
refuse() {
    { echo "sh run.sh: $1"; help; } >&2
    exit 2
}

# Check the name behind a command. $1: the command, $2: the name, the rest: its known names.
check_name() {
    of=$1 given=$2
    shift 2
    for known in "$@"; do
        [ "$given" != "$known" ] || return 0
    done
    known=$*
    [ -n "$given" ] || refuse "$of needs a NAME: ${known# }"
    refuse "$of has no '$given'; it has: ${known# }"
}

command=${1:-}
[ $# -eq 0 ] || shift
name=
case $command in
check | renew | validate | refit | benchmark | sturdiness)
    # What begins with a dash is an option of the command itself.
    case "${1:-}" in
    "" | -*) ;;
    *)
        name=$1
        shift
        ;;
    esac
    ;;
esac
case $command in
check) check_name check "$name" "" audit versions ;;
renew) check_name renew "$name" readme golden pages ;;
validate) check_name validate "$name" "" agreement closed-loop components contradictions costs error-correlations error-spreads launchable published-costs scoreboard ;;
refit) check_name refit "$name" evidence kernels levels measurements power priors profiles published-counts traffic ;;
benchmark) check_name benchmark "$name" "" commands explorer ;;
sturdiness) check_name sturdiness "$name" "" explorer fuzz orders sweep-kills ;;
esac
case "$command $name" in
"demo " | "long " | "check " | "docs " | "reproduce " | "validate " | "benchmark " | "release " | \
    "validate closed-loop" | "validate launchable" | "validate error-correlations" | "validate error-spreads" | \
    "validate scoreboard" | "refit evidence" | "refit measurements" | "refit priors" | "refit profiles" | "refit published-counts")
    [ $# -eq 0 ] || refuse "$command${name:+ $name} takes no argument, got '$*'"
    ;;
esac

case "$command${name:+ $name}" in
demo)
    set_up . package
    .venv/bin/inference-econ frontier llama_3_70b h100_sxm --weights fp8 --plot frontier.svg
    ;;
test)
    set_up ".[dev]" dev
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
    # 5 minutes.
    set_up ".[dev]" dev
    set_up_browser
    .venv/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m long
    ;;
check)
    set_up ".[dev]" dev
    check
    ;;
"check audit")
    # Known weaknesses of every installed package; it queries the Python package index.
    set_up ".[dev]" dev
    [ -x .venv-audit/bin/python ] || "$(find_python)" -m venv .venv-audit
    .venv-audit/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip-audit
    .venv-audit/bin/pip-audit --path "$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" "$@" >.venv-audit/said.txt 2>&1 || failed=$?
    cat .venv-audit/said.txt
    # pip-audit reports no weakness of a package that it cannot find: without a network all packages are of that kind.
    if grep -v '^inference-econ ' .venv-audit/said.txt | grep -q "could not be audited"; then
        echo "audit: some packages were not in the Python package index, so nothing is known of them" >&2
        exit 1
    fi
    exit "${failed:-0}"
    ;;
"check versions")
    # The tests under the lowest and the newest dependencies, on every Python that is there.
    PYTHON=$(find_python) sh benchmarks/versions.sh "$@"
    ;;
docs)
    set_up ".[docs]" docs
    # -W: a link that leads nowhere, or a name that is gone, is an error; a notebook that fails too.
    .venv/bin/python -m sphinx -W --keep-going --quiet -b html docs docs/_build/html
    echo "docs/_build/html/index.html"
    ;;
"renew readme")
    # The commands of README.md and of the documents with their present output; or of FILES alone.
    set_up ".[dev]" dev
    .venv/bin/python -m benchmarks.transcripts "$@"
    ;;
"renew golden")
    # Golden pages of the tests, 2 minutes; with words only pages whose commands contain one.
    set_up ".[dev]" dev
    .venv/bin/python -m benchmarks.pages --golden "$@"
    ;;
"renew pages")
    # Every page in every form, to compare before and after a change of structure; 2 minutes.
    set_up ".[studies]" studies
    .venv/bin/python -m benchmarks.pages "$@"
    ;;
reproduce)
    set_up . package
    .venv/bin/inference-econ paper reproduce
    ;;
validate)
    # Into docs/evidence/validation.md.
    set_up ".[studies]" studies
    .venv/bin/python -m benchmarks.validation
    ;;
"validate components")
    # Collectives and memory into docs/evidence/collectives.md; or one of collectives, load, memory, pool_pairs, specdec, with a file.
    set_up ".[studies]" studies
    .venv/bin/python -m benchmarks.components "$@"
    ;;
"validate closed-loop")
    # The analytical models of loops and streams against their simulation, into docs/evidence/closed_loop.md; 15 minutes.
    set_up ".[studies]" studies
    .venv/bin/python -m benchmarks.closed_loop
    .venv/bin/python -m benchmarks.streams
    ;;
"validate contradictions")
    # Random setups asked twice, into docs/evidence/contradictions.md; 4 minutes, --cases for fewer.
    set_up ".[studies]" studies
    .venv/bin/python -m benchmarks.contradictions "$@"
    ;;
"validate costs")
    # Costs at a speed on fixed measured servers, into docs/evidence/costs.md; fails where an answer is gone. 3 to 10 minutes.
    # --record adds the best servers of today and fixes the answers; --only TEXT prints some combinations.
    set_up ".[studies]" studies
    .venv/bin/python -m benchmarks.validation.ruler "$@"
    ;;
"validate agreement")
    # Commands that must give the same answer, on 40 setups; 10 minutes. --every 5 asks one of five.
    set_up ".[studies]" studies
    .venv/bin/python -m benchmarks.agreement "$@"
    ;;
"validate error-correlations")
    # Rank correlations of prediction errors; 2 minutes.
    set_up ".[studies]" studies
    .venv/bin/python -m benchmarks.error_correlations
    ;;
"validate error-spreads")
    # Widths of 80% intervals by engine, and how many deployments they contain; a minute.
    set_up ".[studies]" studies
    .venv/bin/python -m benchmarks.error_spreads
    ;;
"validate launchable")
    # Default answers that an engine can start, into docs/evidence/startable_answers.md; 5 minutes.
    set_up ".[studies]" studies
    .venv/bin/python -m benchmarks.launchable
    ;;
"validate published-costs")
    # Costs that InferenceX publishes at fixed speeds, into docs/evidence/published_costs.md; 2 minutes.
    set_up ".[studies]" studies
    .venv/bin/python -m benchmarks.validation.published_costs
    ;;
"validate scoreboard")
    # Every predictor that can be installed, on the same measured servers, into docs/evidence/scoreboard.md; 5 minutes.
    # Other predictors have dependencies of their own (1 GB), and stay out of the environment of the package.
    [ -x .venv-scoreboard/bin/python ] || "$(find_python)" -m venv .venv-scoreboard
    .venv-scoreboard/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[studies]" aiconfigurator==0.12.0
    .venv-scoreboard/bin/python -m benchmarks.scoreboard
    ;;
"refit evidence")
    # What was measured, counted, into scenarios/measured/evidence.csv; seconds.
    set_up ".[studies]" studies
    .venv/bin/python -m data.evidence
    ;;
"refit kernels")
    # Curves of kernels fitted to public tables. The tables are 82 MB and no part of the package: they and their readers
    # (300 MB) stay out of its environment.
    [ -x .venv-kernels/bin/python ] || "$(find_python)" -m venv .venv-kernels
    .venv-kernels/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[studies]"
    .venv-kernels/bin/python -m pip install --quiet --disable-pip-version-check --no-deps aiconfigurator-core==0.12.0
    .venv-kernels/bin/python -m data.kernel_tables "$@"
    ;;
"refit levels")
    # Levels of measured servers over every profile, into scenarios/assumptions/levels/, and without single deployments
    # for `validate costs`; 5 minutes. --judge tests them on other rows, into docs/evidence/levels.md; 10 minutes more.
    set_up ".[studies]" studies
    .venv/bin/python -m data.levels "$@"
    ;;
"refit measurements")
    # Tables of measured servers from the published ones, into scenarios/measured/servers; seconds.
    set_up ".[studies]" studies
    .venv/bin/python -m data.measurements
    ;;
"refit power")
    # Power of chips fitted to the energy runs of ML.ENERGY. FOLDER: public/data/tasks of a checkout of its leaderboard.
    # Into scenarios/assumptions/power/ and docs/evidence/power.md; seconds.
    set_up ".[studies]" studies
    .venv/bin/python -m data.power "$@"
    ;;
"refit priors")
    # Frontiers of models of every size, into scenarios/assumptions/priors/frontiers.csv; 10 minutes.
    set_up ".[studies]" studies
    .venv/bin/python -m data.prior_frontiers
    ;;
"refit profiles")
    # Every fitted profile, into scenarios/assumptions/profiles/; 25 minutes.
    set_up ".[studies]" studies
    sh data/profiles.sh
    ;;
"refit published-counts")
    # Parameters of published classes, which tests compare with the importer; 20 minutes.
    # The classes need PyTorch (1 GB): an environment of their own, which nothing else uses.
    [ -x .venv-published/bin/python ] || "$(find_python)" -m venv .venv-published
    .venv-published/bin/python -m pip install --quiet --disable-pip-version-check --editable . torch==2.13.0 transformers==5.24.0
    HF_HUB_OFFLINE=1 .venv-published/bin/python -W ignore -m data.published_counts
    ;;
"refit traffic")
    [ $# -eq 1 ] || refuse "refit traffic needs the FOLDER of its traces"
    set_up ".[studies]" studies
    .venv/bin/python -m data.traffic "$1"
    ;;
benchmark)
    set_up ".[dev]" dev
    .venv/bin/python -m benchmarks.run
    ;;
"benchmark commands")
    # Whole commands, over the time of an interpreter with numpy, and the page; ten minutes, --rounds for more. --published FILE and
    # --aiconfigurator PROGRAM time the code of the study and aiconfigurator in the same run.
    set_up ".[dev]" dev
    .venv/bin/python -m benchmarks.commands "$@"
    ;;
"benchmark explorer")
    # The explorer over HTTP: its start, changed controls, 50 users at once; 4 minutes.
    set_up ".[dev]" dev
    .venv/bin/python -m benchmarks.explorer "$@"
    ;;
sturdiness)
    # Into tests/fuzz/sturdiness.md; 10 minutes. --attack home --attack names: some attacks; a stopped run goes on so.
    set_up ".[dev]" dev
    .venv/bin/python -m benchmarks.sturdiness "$@"
    ;;
"sturdiness explorer")
    # 10,000 requests made from the OpenAPI document of the explorer; an hour, --cases for fewer. Continues with others.
    set_up ".[dev]" dev
    .venv/bin/python -m benchmarks.explorer_fuzz "$@"
    ;;
"sturdiness fuzz")
    # Generated inputs, each of which must be answered or rejected; an hour, --minutes for less. Resumes where it was.
    set_up ".[dev]" dev
    .venv/bin/python -m benchmarks.fuzz "$@"
    ;;
"sturdiness orders")
    # 300 random setups asked again with a better input, which must not cost more. Resumes where it was; half an hour, --setups for fewer.
    set_up ".[dev]" dev
    .venv/bin/python -m benchmarks.orders "$@"
    ;;
"sturdiness sweep-kills")
    # A sweep killed a hundred times at random moments, which loses and repeats no row; 10 minutes, --kills for fewer.
    set_up ".[dev]" dev
    .venv/bin/python -m benchmarks.sweep_kills "$@"
    ;;
release)
    # Compares both builds, and writes checksums and an SBOM.
    set_up ".[dev]" dev
    .venv/bin/python -m benchmarks.release
    ;;
help | -h | --help)
    help
    ;;
"")
    refuse "a command is missing"
    ;;
*)
    refuse "unknown command '$command'"
    ;;
esac
