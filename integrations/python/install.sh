#!/bin/sh
# Builds the command for this machine and installs it: make install.
#
# With a Python that packages may be installed into (an active virtual environment, or
# one that the system does not manage) pip installs the command and the client into it.
# Otherwise the command alone is copied to BIN: trainspan run brings the client along.
#
#	PYTHON  the interpreter (python3)
#	BIN     the folder of the command alone (where go install puts programs)
#	GO      the go command
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
go=${GO:-go} python=${PYTHON:-python3}
cd "$root"

echo "1/2 building the command"
rm -f bin/trainspan
CGO_ENABLED=0 GOGC=${GOGC:-400} "$go" build -v -o bin/trainspan ./cmd/trainspan 2>&1 | awk '
	/^[a-z0-9.]+(\/[A-Za-z0-9._-]+)*$/ { if (++n % 50 == 0) print "    " n " packages compiled"; next }
	{ print }'
test -x bin/trainspan || { echo "the command was not built" >&2; exit 1; }

why=
if ! command -v "$python" >/dev/null; then
	why="cannot find $python"
elif [ "$(uname -s)" != Linux ]; then
	why="the client runs on Linux only"
elif ! "$python" -c 'import platform, sys; sys.exit(platform.machine() not in ("x86_64", "aarch64"))'; then
	why="the client's wheels are for x86_64 and aarch64"
elif ! "$python" -m pip --version >/dev/null 2>&1; then
	why="$python has no pip"
elif "$python" -c 'import os, sys, sysconfig; sys.exit(sys.prefix != sys.base_prefix or not os.path.exists(os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")))'; then
	why="the system manages the packages of $python; activate a virtual environment to install the client"
fi
if [ -z "$why" ]; then
	echo "2/2 installing the command and the Python client into $("$python" -c 'import sys; print(sys.prefix)')"
	wheel=$(mktemp -d)
	trap 'rm -rf "$wheel"' EXIT
	"$python" integrations/python/wheels.py "$wheel" bin/trainspan >/dev/null
	"$python" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps --no-index "$wheel"/*.whl
	bin=$("$python" -c 'import sysconfig; print(sysconfig.get_path("scripts"))')
else
	bin=${BIN:-$("$go" env GOBIN)}
	bin=${bin:-$("$go" env GOPATH)/bin}
	echo "2/2 installing only the command into $bin: $why"
	mkdir -p "$bin"
	install -m 755 bin/trainspan "$bin/trainspan"
fi
"$bin/trainspan" version
case ":$PATH:" in *":$bin:"*) ;; *) echo "add $bin to PATH to run it as trainspan" ;; esac
