#!/usr/bin/env bash
# env.sh COMMAND...: runs COMMAND with the Python of an environment that has the libraries whose APIs the client has, as they are on
# PyPI, at the versions of pins.txt. It is made at the first call and kept in $XDG_CACHE_HOME/trainspan; remove it to make it anew.
# Status 75: it cannot be made here: no venv, or PyPI is not reached.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/trainspan
dir=$cache/originals
recipe=$(cat "$here/pins.txt" "$0" | sha256sum | cut -d' ' -f1)
mkdir -p "$cache"
exec 9>"$dir.lock"
flock 9
if [ "$(cat "$dir/.made-from" 2>/dev/null)" != "$recipe" ]; then
	rm -rf --one-file-system "$dir"
	if ! "${PYTHON:-python3}" -m venv "$dir" >"$dir.log" 2>&1 || ! "$dir/bin/pip" install -q --disable-pip-version-check -r "$here/pins.txt" >>"$dir.log" 2>&1; then
		tail -n 3 "$dir.log" >&2
		echo "env.sh: the original libraries cannot be installed here" >&2
		exit 75
	fi
	echo "$recipe" >"$dir/.made-from"
fi
exec 9>&-
PATH=$dir/bin:$PATH exec "$@"
