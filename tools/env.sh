# Sourced by the scripts below tools, after their usage comment: enters the root of the
# repository, and answers -h with that comment.
# shellcheck shell=bash
case ${1:-} in
-h | --help)
	awk 'NR > 1 && !/^#/ {exit} NR > 1 {sub(/^# ?/, ""); print}' "$0"
	exit
	;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
# shellcheck disable=SC2034
root=$PWD
export GO=${GO:-go}
# The library, the command and the examples: three modules that go.work joins.
# shellcheck disable=SC2034
packages=(./cmd/trainspan/... ./examples/... ./...) # those with the longest tests first
# The race detector needs a C compiler; Go says 0 where there is none.
has_cgo() { [ "$("$GO" env CGO_ENABLED)" = 1 ]; }
