package file

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/telemetry/outputs"
)

func expand(path string, id outputs.Identity) string {
	return strings.NewReplacer(
		"{rank}", strconv.Itoa(id.Rank.Get()),
		"{pid}", strconv.Itoa(id.PID),
		"{host}", strings.ReplaceAll(id.Host, string(filepath.Separator), "_"),
	).Replace(path)
}

// open opens the file for appending and claims it for this process.
func open(path string, rank, pid int, truncate bool) (*os.File, error) {
	if dir := filepath.Dir(path); dir != "." {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	if !claim(f) {
		_ = f.Close()
		ext := filepath.Ext(path)
		path = fmt.Sprintf("%s.rank%d.pid%d%s", strings.TrimSuffix(path, ext), rank, pid, ext)
		if f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
			return nil, err
		}
		if !claim(f) {
			_ = f.Close()
			return nil, fmt.Errorf("open %s: in use by another exporter of this process: give each its own path", path)
		}
	}
	if truncate && regular(f) { // a pipe or a device has nothing to empty
		if err := f.Truncate(0); err != nil {
			_ = f.Close()
			return nil, err
		}
	}
	return f, nil
}

func regular(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// maxTail is how far back mend looks for the beginning of the last line.
const maxTail = 4 << 20

// mend takes the torn last line off a file that a killed process, or a disk
// that was full, left behind, so that no half line stands before new ones. A
// last line that is whole, or that is none of ours, is left alone; then mend
// tells that a line end is missing.
func mend(f *os.File) (missing bool) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	in, err := os.Open(f.Name())
	if err != nil {
		return false
	}
	defer func() { _ = in.Close() }()
	var last [1]byte
	if _, err := in.ReadAt(last[:], info.Size()-1); err != nil || last[0] == '\n' {
		return false
	}
	tail := make([]byte, min(info.Size(), maxTail))
	if _, err := in.ReadAt(tail, info.Size()-int64(len(tail))); err != nil {
		return true
	}
	begin := bytes.LastIndexByte(tail, '\n') + 1
	if begin == 0 && int64(len(tail)) < info.Size() {
		return true
	}
	line := tail[begin:]
	const ours = `{"type":"`
	if json.Valid(line) || !bytes.HasPrefix(line, []byte(ours[:min(len(ours), len(line))])) {
		return true
	}
	return f.Truncate(info.Size()-int64(len(line))) != nil
}
