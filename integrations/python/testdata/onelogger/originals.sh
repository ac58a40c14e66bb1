#!/usr/bin/env bash
# Runs each recorded scenario and SEEDS random programs (SEEDS=40) with the original one-logger, and with this library in Go and
# in Python, and what the programs of idioms print, and compares record by record: differences are those of docs/reference/formats.md, or defects.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../../.." && pwd)
env=$here/../originals/env.sh
if ! "$env" true; then
	echo "originals: one-logger is not compared: it cannot be installed here"
	exit 0
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
record() { # NAME SCENARIO: what the original does
	mkdir -p "$out/run/$1" "$out/golden/$1"
	cp "$2" "$out/golden/$1/scenario.json"
	(cd "$out/run/$1" && "$env" python3 -B "$here/replay.py" nv_one_logger "$out/golden/$1/scenario.json" "$out/run/$1/o")
	cp "$out/run/$1/o/result.json" "$out/golden/$1/"
	[ ! -e "$out/run/$1/o/telemetry.jsonl" ] || cp "$out/run/$1/o/telemetry.jsonl" "$out/golden/$1/golden.norm.jsonl"
}
n=0
for scenario in "$root"/telemetry/testdata/golden/*/scenario.json "$root"/../shared/golden/one-logger/*/scenario.json; do
	[ -e "$scenario" ] || continue
	name=$(basename "$(dirname "$scenario")")
	[ -e "$out/golden/$name" ] || { record "$name" "$scenario"; n=$((n + 1)); }
done
mkdir -p "$out/random"
for seed in $(seq 1 "${SEEDS:-40}"); do
	"$env" python3 -B "$here/generate.py" "$seed" >"$out/random/$seed.json"
	record "random_$seed" "$out/random/$seed.json"
done
for program in "$here"/idioms/*.py; do
	"$env" python3 -B "$program" | diff - "${program%.py}.txt" >&2 || { echo "originals: $(basename "$program" .py).txt is not what the original does" >&2; exit 1; }
done
"$env" python3 -B "$here/names.py" nv_one_logger | diff - "$here/names.txt" >&2 || { echo "originals: names.txt is not what the original has" >&2; exit 1; }
(cd "$root" && ONE_LOGGER_ONLY=$out/golden "${GO:-go}" test -short -count=1 ./telemetry -run '^TestGolden(Python)?$')
echo "originals: one-logger: $n scenarios and ${SEEDS:-40} random programs are the same, but for docs/reference/formats.md"
