package compilelog

import (
	"encoding/json"

	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
)

// chromium handles one begin, end or instant. Begins and ends nest per thread.
func (rd *reader) chromium() error {
	if !json.Valid(rd.payload) {
		rd.log.defect(rd.offset, "the payload is not valid JSON")
		return nil
	}
	ev := Phase{TID: rd.tid}
	ph := byte(0)
	haveTS := false
	kineto.Args(rd.payload).Each(func(key, raw []byte) bool {
		switch string(key) {
		case "name":
			ev.Name, _ = kineto.Clean([]byte(kineto.UnquoteText(raw)))
		case "ts":
			ev.Start, haveTS = kineto.ParseNanos(raw)
		case "dur":
			ev.Dur, _ = kineto.ParseNanos(raw)
		case "ph":
			if len(raw) == 3 {
				ph = raw[1]
			}
		case "args":
			args := kineto.Args(raw)
			if id, ok := args.Text("compile_id"); ok && id != "None" {
				ev.CompileID = id
			}
			ev.FailType, _ = args.Text("fail_type")
		}
		return true
	})
	if ev.Name == "" || !haveTS {
		rd.log.defect(rd.offset, "a chromium event has no name or no time")
		return nil
	}
	switch ph {
	case 'B':
		return rd.begin(&ev)
	case 'E':
		return rd.end(&ev)
	case 'i', 'I':
		ev.Instant, ev.Dur = true, 0
		ev.Depth = len(rd.stacks[rd.tid]) + 1
		return rd.emit(&ev)
	case 'X':
		ev.Dur = max(ev.Dur, 0)
		ev.Depth = len(rd.stacks[rd.tid]) + 1
		return rd.emit(&ev)
	}
	rd.log.defect(rd.offset, "a chromium event has an unknown phase")
	return nil
}

func (rd *reader) begin(ev *Phase) error {
	st := rd.stacks[rd.tid]
	if len(st) >= maxDepth || len(rd.stacks) > 10_000 {
		rd.log.Unmatched++
		return nil
	}
	ev.Depth = len(st) + 1
	rd.stacks[rd.tid] = append(st, *ev)
	return nil
}

// end closes the innermost begin with the same name; begins above it never
// ended.
func (rd *reader) end(ev *Phase) error {
	st := rd.stacks[rd.tid]
	for i := len(st) - 1; i >= 0; i-- {
		if st[i].Name != ev.Name {
			continue
		}
		rd.log.Unmatched += int64(len(st) - 1 - i)
		open := st[i]
		rd.stacks[rd.tid] = st[:i]
		open.Dur = max(ev.Start-open.Start, 0)
		if open.CompileID == "" {
			open.CompileID = ev.CompileID
		}
		open.FailType = ev.FailType
		return rd.emit(&open)
	}
	rd.log.Unmatched++
	return nil
}

func (rd *reader) emit(ev *Phase) error {
	rd.log.Phases++
	if rd.fn == nil {
		return nil
	}
	return rd.fn(ev)
}
