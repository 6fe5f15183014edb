#!/bin/sh
# Looks up every locked package in the vulnerability database of PyPI (pip-audit). Exits with 1 if one is known to be
# vulnerable, and with 2 if the database could not be queried for all of them.
set -eu
cd "$(dirname "$0")/.."

report=$(mktemp)
trap 'rm -f "$report"' EXIT
unknown=0
for lock in requirements/dev.txt requirements/run.txt requirements/uv.txt; do
    echo "== $lock"
    # Exits with 1 for a finding and for a failure; its report distinguishes them.
    .venv/bin/uv tool run --quiet pip-audit@2.10.1 --progress-spinner off --disable-pip --require-hashes \
        --format json --output "$report" --requirement "$lock" 2>"$report.err" || true
    status=0
    .venv/bin/python - "$report" <<'PYTHON' || status=$?
import json
import pathlib
import sys

try:
    found = json.loads(pathlib.Path(sys.argv[1]).read_text())["dependencies"]
except ValueError:
    print("audit: the database cannot be reached")
    sys.exit(2)
bad = [package for package in found if package.get("vulns")]
skipped = [package for package in found if "skip_reason" in package]
for package in bad:
    for known in package["vulns"]:
        fixed = ", ".join(known["fix_versions"]) or "no version yet"
        print(f"audit: {package['name']} {package['version']}: {known['id']}, fixed in {fixed}")
print(f"audit: {len(found) - len(skipped)} packages looked up, {len(bad)} vulnerable, {len(skipped)} unknown")
sys.exit(1 if bad else 2 if skipped else 0)
PYTHON
    rm -f "$report.err"
    case "$status" in
        0) ;;
        2) unknown=1 ;;
        *) exit 1 ;;
    esac
    : >"$report"
done
[ "$unknown" -eq 0 ] || exit 2
