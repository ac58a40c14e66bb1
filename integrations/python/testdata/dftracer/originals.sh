#!/usr/bin/env bash
# originals.sh [PROGRAM.py...]: runs SEEDS random programs (SEEDS=40), from the seed SEED on, those of idioms, and the programs given, with
# the original DFTracer and with this library, and compares what they print and their traces record by record: differences are those of
# docs/reference/formats.md, or defects.
# The original is kept in $XDG_CACHE_HOME/trainspan; remove it there to install it anew.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/trainspan
dir=$cache/originals-dftracer
pins=(pydftracer==2.0.6 dftracer==2.2.0)
mkdir -p "$cache"
if [ "$(cat "$dir/.made-from" 2>/dev/null)" != "${pins[*]}" ]; then
	rm -rf --one-file-system "$dir"
	if ! "${PYTHON:-python3}" -m venv "$dir" >"$dir.log" 2>&1 || ! "$dir/bin/pip" install -q --disable-pip-version-check "${pins[@]}" >>"$dir.log" 2>&1; then
		tail -n 3 "$dir.log" >&2
		echo "originals: DFTracer is not compared: it cannot be installed here"
		exit 0
	fi
	echo "${pins[*]}" >"$dir/.made-from"
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
(cd "$here/../../../../cmd/trainspan" && "${GO:-go}" build -o "$out/trainspan" .)
TMPDIR=$out "${PYTHON:-python3}" -B "$here/side.py" --original "$dir/bin/python" --trainspan "$out/trainspan" --seeds "${SEEDS:-40}" --seed "${SEED:-0}" "$here"/idioms/*.py "$@"
