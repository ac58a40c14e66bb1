#!/usr/bin/env bash
# env.sh COMMAND...: runs COMMAND with the Python of an environment that has the frameworks of docs/guide/recipes.md, as they are on PyPI, at
# the versions of pins.txt. It is made at the first call and kept in $XDG_CACHE_HOME/trainspan; remove it to make it anew.
# Status 75: it cannot be made here: no Python 3.12, no venv, or PyPI is not reached.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/trainspan
dir=$cache/recipes
recipe=$(sha256sum <"$here/pins.txt" | cut -d' ' -f1)
mkdir -p "$cache"
exec 9>"$dir.lock"
flock 9
if [ "$(cat "$dir/.made-from" 2>/dev/null)" != "$recipe" ]; then
	rm -rf --one-file-system "$dir"
	python=
	for name in "${PYTHON:-}" "${HOME:-}"/.pyenv/versions/3.12.*/bin/python3 python3.12 python3; do
		if [ -n "$name" ] && "$name" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null; then
			python=$name
			break
		fi
	done
	if [ -z "$python" ]; then
		echo "env.sh: the recipes are skipped: there is no Python 3.12 here" >&2
		exit 75
	fi
	if ! "$python" -m venv "$dir" >"$dir.log" 2>&1 ||
		! "$dir/bin/pip" install -q --disable-pip-version-check --no-compile --no-deps --only-binary :all: -r "$here/pins.txt" >>"$dir.log" 2>&1; then
		tail -n 3 "$dir.log" >&2
		rm -rf --one-file-system "$dir"
		echo "env.sh: the recipes are skipped: their frameworks cannot be installed here" >&2
		exit 75
	fi
	echo "$recipe" >"$dir/.made-from"
fi
exec 9>&-
PATH=$dir/bin:$PATH exec "$@"
