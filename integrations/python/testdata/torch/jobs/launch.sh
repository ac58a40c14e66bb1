#!/bin/sh
# Ranks in a loop of the shell: launch.sh PYTHON PROGRAM [ARGUMENT...]
export MASTER_ADDR=127.0.0.1 WORLD_SIZE=2
MASTER_PORT=$("$1" -c 'import small; print(small.free_port())')
export MASTER_PORT
pids=
for RANK in 0 1; do
	export RANK LOCAL_RANK=$RANK
	"$@" &
	pids="$pids $!"
done
status=0
for pid in $pids; do
	wait "$pid" || status=$?
done
exit $status
