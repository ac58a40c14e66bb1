#!/bin/sh
# Digests the traces of a job in a Slurm array, a task for each part, and reports when all
# are there. A part is a folder (or file) of traces; all files of one process are in one.
#
#   examples/slurm/digest.sh OUT PART...
#
# OUT is a folder that all nodes see: it gets a digest for each part, log files, and
# report.html and report.json. Run it again and only the parts without a digest are read
# again, such as those of tasks that failed or were killed. It waits, and ends with the
# status of the report: 1 if files are damaged. Options of sbatch: SBATCH_PARTITION and the like; of trainspan,
# whose path is in TRAINSPAN: none are needed.
set -eu
if [ "${1:-}" = --task ]; then # on some node; the variable alone may be of an array that runs this script
	part=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" "$2/parts")
	digest=$2/part-$(printf %05d "$SLURM_ARRAY_TASK_ID").digest
	"${TRAINSPAN:-trainspan}" trace digest "$part" -o "$digest" || [ -e "$digest" ] # status 1 with a digest: files are damaged
	exit
fi
[ $# -ge 2 ] || { echo "usage: digest.sh OUT PART..." >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
for part; do realpath "$part"; done >"$out/parts.new"
if [ -e "$out/parts" ] && ! cmp -s "$out/parts" "$out/parts.new"; then
	echo "digest.sh: $out has digests of other parts; name a new folder" >&2
	exit 2
fi
mv "$out/parts.new" "$out/parts"
missing=$(i=0; while [ $i -lt $# ]; do [ -e "$out/part-$(printf %05d $i).digest" ] || printf ',%d' $i; i=$((i + 1)); done)
if [ "$missing" ]; then # a task that fails does not stop the others
	sbatch --wait --array="${missing#,}" --job-name=digest --output="$out/task-%a.log" "$0" --task "$out" ||
		echo "digest.sh: tasks failed; their logs are in $out" >&2
fi
left=0
for i in $(seq 0 $(($# - 1))); do
	[ -e "$out/part-$(printf %05d "$i").digest" ] || { left=$((left + 1)); echo "digest.sh: no digest of $(sed -n "$((i + 1))p" "$out/parts"): $(tail -n 1 "$out/task-$i.log" 2>/dev/null)" >&2; }
done
[ $left = 0 ] || { echo "digest.sh: $left of $# parts are missing; run it again for them" >&2; exit 1; }
srun --ntasks=1 --job-name=report sh -c '"$0" report "$1"/part-*.digest --html "$1/report.html"; page=$?
"$0" report "$1"/part-*.digest --json >"$1/report.json"; json=$?
exit $((page > json ? page : json))' "${TRAINSPAN:-trainspan}" "$out"
