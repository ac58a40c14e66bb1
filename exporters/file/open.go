package file

import (
	"bytes"
	"encoding/json"
	"os"

	"github.com/trainspan/trainspan/internal/outfile"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// open opens the file that a path stands for, and gives the name asked for.
func open(path string, id outputs.Identity, add bool) (out outfile.Output, asked string, err error) {
	name := outfile.Name{Path: path, PID: id.PID, Host: id.Host}
	if id.RankKnown {
		name.WorldSize = id.WorldSize
	}
	if id.Rank.IsSet() {
		rank := id.Rank.Get()
		name.Rank = &rank
	}
	if asked, err = name.Resolve(); err != nil {
		return nil, "", err
	}
	existing := outfile.NextName
	if add {
		existing = outfile.Append
	}
	out, err = outfile.Open(asked, existing)
	return out, asked, err
}

// maxTail is how far back repair looks for the beginning of the last line.
const maxTail = 4 << 20

// repair takes the torn last line off a file that is appended to, so that no half
// line stands before new ones. A last line that is whole, or that is none of
// ours, is left alone; then repair reports that a line end is missing.
func repair(out outfile.Output) (missing bool) {
	size := out.Size()
	if size == 0 {
		return false
	}
	in, err := os.Open(out.Path())
	if err != nil {
		return false
	}
	defer func() { _ = in.Close() }()
	var last [1]byte
	if _, err := in.ReadAt(last[:], size-1); err != nil || last[0] == '\n' {
		return false
	}
	tail := make([]byte, min(size, maxTail))
	if _, err := in.ReadAt(tail, size-int64(len(tail))); err != nil {
		return true
	}
	begin := bytes.LastIndexByte(tail, '\n') + 1
	if begin == 0 && int64(len(tail)) < size {
		return true
	}
	line := tail[begin:]
	const ours = `{"type":"`
	if json.Valid(line) || !bytes.HasPrefix(line, []byte(ours[:min(len(ours), len(line))])) {
		return true
	}
	return outfile.Cut(out, size-int64(len(line))) != nil
}
