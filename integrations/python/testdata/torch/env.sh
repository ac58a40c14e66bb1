#!/usr/bin/env bash
# env.sh 2.6|new COMMAND...: runs COMMAND in a Debian that has PyTorch, with this repository, Go and /tmp at their own paths.
#   2.6   Debian 13: Python 3.13, torch 2.6
#   new   Debian unstable, when it was made: torch 2.14 at the time of writing
# Its folder is made at the first call (one to six minutes, 2 to 4 GB) and kept in $XDG_CACHE_HOME/trainspan; remove it to make it anew.
# What Debian lacks is in /opt/NAME of the folder, from pins/NAME.txt.
# Status 75: there is none and none can be made here (no root, apt or unshare). Status 1: it could not be made.
set -euo pipefail
version=${1:?version} stage=${TORCH_ENV_STAGE:-}
shopt -s nullglob
here=${BASH_SOURCE[0]%/*}
[ "$here" != "${BASH_SOURCE[0]}" ] || here=.
here=$(cd "$here" && pwd)
cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
cache=${cache:-${TMPDIR:-/tmp}}/trainspan
dir=$cache/torch-$version
packages=python3,python3-torch,python3-numpy,python3-pip,python3-setuptools,python3-wheel,python3-yaml,python3-tqdm,python3-packaging,python3-filelock
packages+=,python3-psutil,python3-requests,python3-fsspec,python3-safetensors,python3-dask,python3-distributed,python3-httpx,python3-regex
packages+=,python3-rich,python3-jinja2,libtorch-dev,ninja-build,g++,procps,mount,openmpi-bin,ca-certificates
case $version in
2.6) suite=trixie ;;
new) suite=sid packages+=,python3-pybind11,python3-transformers,python3-accelerate,python3-torch-ignite,python3-pyarrow ;;
*) echo "env.sh: no version $version" >&2; exit 2 ;;
esac

# complete says whether a folder was made whole, from this recipe.
complete() { [ "$(cat "$1/.made-from" 2>/dev/null)" = "$2" ]; }

# make_folder FOLDER RECIPE COMMAND...: COMMAND fills FOLDER.new, which gets the name when it is whole.
make_folder() {
	local folder=$1 recipe=$2
	shift 2
	rm -rf --one-file-system "$folder.new"
	mkdir -p "$folder.new"
	"$@" "$folder.new"
	printf '%s\n' "$recipe" >"$folder.new/.made-from"
	[ ! -e "$folder" ] || { rm -rf --one-file-system "$folder.old" && mv "$folder" "$folder.old"; }
	mv "$folder.new" "$folder"
	rm -rf --one-file-system "$folder.old"
}

debian() {
	# The machine's own mirror.
	local mirror
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | awk '/\/debian\/?$/ && !n++')
	[ -n "$mirror" ] || { echo "env.sh: no mirror of Debian in the sources of apt" >&2; return 1; }
	# A mirror that is a cache may serve an index that is some days old.
	mmdebstrap --quiet --variant=apt --mode=root --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Retries "3"' --include="$packages" "$suite" "$1" "$mirror"
}

# enter DIR: what a command in there needs of this machine. It is mounted in a namespace that ends with its last process.
enter() {
	local at
	mount --bind "$1" "$1" # a root that is a mount can have namespaces of its own
	for at in /proc /sys /dev /tmp; do mount --rbind "$at" "$1$at"; done
	for at in /etc/resolv.conf /etc/hosts "${PIP_CERT:-}"; do
		[ -f "$at" ] && mkdir -p "$1$(dirname "$at")" && : >>"$1$at" && mount --bind "$at" "$1$at"
	done
	for at in $(printf '%s\n' "$(cd "$here/../../../.." && pwd)" "$(cd "$here/../../../../../shared" 2>/dev/null && pwd)" "${TMPDIR:-/tmp}" $(go env GOROOT GOMODCACHE GOCACHE) | sort -u); do
		[ "$at" = /tmp ] || { mkdir -p "$1$at" && mount --rbind "$at" "$1$at"; }
	done
}

in_folder() {
	local root=$1
	shift
	enter "$root"
	exec chroot "$root" /usr/bin/env -u TORCH_ENV_STAGE -u PIP_FIND_LINKS -C "$PWD" HOME=/root USE_LIBUV=0 HF_HUB_OFFLINE=1 \
		GOCACHE="$(go env GOCACHE)" GOMODCACHE="$(go env GOMODCACHE)" GOFLAGS="$(go env GOFLAGS)" PATH="$(go env GOROOT)/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin" "$@"
}

pip_target() {
	unshare --mount bash -c 'TORCH_ENV_STAGE=in exec "$0" "$@"' "$here/env.sh" "$version" python3 -m pip install --quiet --no-deps --no-compile --no-build-isolation \
		--root-user-action=ignore --break-system-packages --target "${2#"$dir"}" -r "$1"
}

case $stage in
make) # with the lock, in a namespace of its own
	complete "$dir" "$packages" || make_folder "$dir" "$packages" debian
	for pins in "$here"/pins/*.txt; do
		name=$(basename "$pins" .txt)
		grep -q "^# .*\b$version\b" "$pins" || continue
		complete "$dir/opt/$name" "$(cat "$pins")" || make_folder "$dir/opt/$name" "$(cat "$pins")" pip_target "$pins"
	done
	exit ;;
in)
	shift
	in_folder "$dir" "$@" ;;
esac

up_to_date() {
	complete "$dir" "$packages" || return 1
	local pins
	for pins in "$here"/pins/*.txt; do
		! grep -q "^# .*\b$version\b" "$pins" || complete "$dir/opt/$(basename "$pins" .txt)" "$(cat "$pins")" || return 1
	done
}

for need in unshare apt-get flock go; do
	command -v "$need" >/dev/null || { echo "env.sh: PyTorch $version is skipped: no $need here" >&2; exit 75; }
done
[ "$(id -u)" = 0 ] || { echo "env.sh: PyTorch $version is skipped: only root can make a Debian to run it in" >&2; exit 75; }
unshare --mount true 2>/dev/null || { echo "env.sh: PyTorch $version is skipped: no mount namespaces here" >&2; exit 75; }
mkdir -p "$cache"
# Who runs in the folder holds the lock with others, who makes it alone. A killed script leaves a child that holds it until it has ended.
exec 9>"$dir.lock"
flock -s 9
if ! up_to_date; then
	flock -u 9
	flock -n 9 || { echo "env.sh: waiting for those who use $dir or make it" >&2 && flock 9; }
	if ! up_to_date; then
		echo "env.sh: making $dir, once" >&2
		command -v mmdebstrap >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mmdebstrap; } </dev/null >/dev/null
		TORCH_ENV_STAGE=make unshare --mount "$here/env.sh" "$version" </dev/null || { echo "env.sh: $dir could not be made" >&2; exit 1; }
	fi
	flock -s 9
fi
export TORCH_ENV_STAGE=in
exec unshare --mount "$here/env.sh" "$@"
