#!/bin/sh
# Creates .venv from the lock files: a pinned uv, the locked packages, this project as an editable install.
# Does nothing if .venv is current; can be interrupted and run again at any point.
# PYTHON names the interpreter to use; otherwise the first suitable one on PATH is taken.
set -eu
cd "$(dirname "$0")/.."

fail() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

# The stamp records from which files, in which directory, .venv was made; it is written last.
wanted="$(cat requirements/build.txt requirements/dev.txt requirements/uv.txt pyproject.toml "$0" | cksum) $(pwd)"
stamp=.venv/setup-stamp
if [ -x .venv/bin/python ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
    exit 0
fi

# Each candidate is executed, because version managers leave stubs on PATH that do not run.
python=
lacking=
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
    "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
    if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
        python="$candidate"
        break
    fi
    lacking="${lacking:-$candidate}"
done
if [ -z "$python" ] && [ -n "$lacking" ]; then
    version="$("$lacking" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
    fail "$lacking cannot make virtual environments. Install venv" \
        "(Debian, Ubuntu: apt install python$version-venv)."
fi
[ -n "$python" ] || fail "no Python 3.11 or newer found (tried: ${PYTHON:-python3, python3.13, python3.12," \
    "python3.11}). Install one or set PYTHON to its path."

# An environment that was moved, or whose Python is missing or too old, must be created again.
rm -f "$stamp"
if ! .venv/bin/python -c '
import pathlib, sys
sys.exit(sys.version_info < (3, 11) or pathlib.Path(sys.prefix) != pathlib.Path(".venv").resolve())
' 2>/dev/null || ! .venv/bin/python -m pip --version >/dev/null 2>&1 || ! head -n 1 .venv/bin/pip | grep -qF "$(pwd)/"; then
    echo "setup: making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv || fail "could not make .venv; see above."
fi

echo "setup: installing the locked packages (the first time, PySpark alone is a download of about 450 MB)"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
uv() {
    # An activated environment or the user's uv settings must not redirect the installation.
    env -u CONDA_PREFIX VIRTUAL_ENV="$(pwd)/.venv" UV_NO_MANAGED_PYTHON=1 .venv/bin/uv "$@"
}
uv pip sync --compile-bytecode --require-hashes --build-constraints requirements/build.txt requirements/dev.txt
uv pip install --quiet --no-deps --no-build-isolation --editable .

printf '%s\n' "$wanted" >"$stamp"
# Only the speed of later starts depends on this. Python keeps the modules compiled, too.
unset PYTHONDONTWRITEBYTECODE
.venv/bin/tidemark prepare || echo "setup: not prepared, see above; \`tidemark prepare\` tries again" >&2
echo "setup: done"
