package dftracer

import (
	"bytes"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"

	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/outfile"
)

// framer makes the start and the end of files and the records of gaps. Its
// methods are called by the sink, on one goroutine.
type framer struct {
	o        *Options
	enc      *dft.Encoder
	names    *names
	nextID   func() uint64
	shorten  *atomic.Uint64  // counts strings that were cut
	end      func() traceEnd // asked when a file ends
	pump     *pump
	clock    dft.Clock
	line     []byte
	text     []byte
	lines    int
	metadata int

	single bool         // one gzip stream for all that is in a file
	zip    *gzip.Writer // of it
	packed bytes.Buffer
}

// traceEnd is what the Writer says at the end of the trace.
type traceEnd struct {
	ts, written int64 // of the end event; 0: when it is written
	args        []Arg
}

// open makes the stream of a file that has one.
func (f *framer) open() (err error) {
	if f.single = f.o.Compression == CompressSingle; !f.single {
		return nil
	}
	level := f.o.Level
	if level == levelAdaptive {
		level = levelSmall
	}
	f.zip, err = gzip.NewWriterLevel(&f.packed, level) // of a resumed file: another member
	return err
}

// Begin implements outfile.Format.
func (f *framer) Begin(p outfile.Part) outfile.Block {
	if f.single {
		f.zip.Reset(&f.packed)
	}
	f.header()
	if p.Number > 0 {
		f.continued(p.Number)
	}
	if p.Number > 0 || p.Again {
		for _, ev := range f.names.all() {
			ev.ID = 0
			f.add(ev)
		}
	}
	return f.block(false)
}

// Encode implements outfile.Format.
func (f *framer) Encode(data []byte) []byte {
	if !f.single {
		return data
	}
	f.packed.Reset()
	_, _ = f.zip.Write(data) // into memory
	_ = f.zip.Flush()
	return f.packed.Bytes()
}

// Gap implements outfile.Format.
func (f *framer) Gap(g outfile.Gap) outfile.Block {
	f.missing(g)
	return f.block(false)
}

// End implements outfile.Format.
func (f *framer) End(p outfile.Part) outfile.Block {
	f.footer(p)
	return f.block(true)
}

// Pause is outfile.Options.Pause: the end of a gzip member.
func (f *framer) Pause() outfile.Block {
	if !f.single {
		return outfile.Block{}
	}
	f.packed.Reset()
	_ = f.zip.Close() // into memory
	return outfile.Block{Data: f.packed.Bytes()}
}

// add encodes a record.
func (f *framer) add(ev Event) {
	if ev.ID == 0 && f.enc.HasID(ev.Phase) {
		ev.ID = f.nextID()
	}
	ev.TID = max(ev.TID, f.enc.Pid)
	line, cuts := dft.AppendFitting(f.line[:0], &ev, func(dst []byte, ev *Event) []byte {
		return f.enc.Append(dst, &f.clock, ev)
	})
	f.shorten.Add(uint64(cuts))
	f.text = append(f.text, line...)
	f.line = line
	f.lines++
	if ev.Phase == PhaseMetadata {
		f.metadata++
	}
}

// block hands out what was added, in the form in which it goes into the file.
func (f *framer) block(last bool) outfile.Block {
	b := outfile.Block{Data: f.text, Lines: f.lines, Metadata: f.metadata}
	f.pump.bytes.Add(uint64(len(f.text)))
	switch {
	case f.o.Compression == CompressNone:
	case f.single:
		b.Data = f.Encode(f.text)
		if last {
			_ = f.zip.Close()
			b.Data = f.packed.Bytes()
		}
	case f.o.Pool != nil:
		f.packed.Reset()
		f.o.Pool.pack(&f.packed, levelFast, f.text)
		f.pump.members.Add(1)
		b.Data = f.packed.Bytes()
	default:
		// A member of its own. That is rare, so nothing is kept for the next.
		f.packed.Reset()
		z, err := gzip.NewWriterLevel(&f.packed, levelFast)
		if err != nil {
			break // the level is valid
		}
		_, _ = z.Write(f.text)
		_ = z.Close()
		f.pump.members.Add(1)
		b.Data = f.packed.Bytes()
	}
	f.text, f.lines, f.metadata = f.text[:0], 0, 0
	return b
}
