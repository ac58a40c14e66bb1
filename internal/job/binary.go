package job

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/trainspan/trainspan/internal/platform/columns"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// doubts are the values of Process.Doubt, by two flags.
var doubts = [4]string{"", identity.Rank.String(), identity.WorldSize.String(), identity.Attempt.String()}

// AppendBinary implements [encoding.BinaryAppender]. It encodes what is known
// about the process after [Set.Processes]; the digest format documents it.
func (p *Process) AppendBinary(dst []byte) ([]byte, error) {
	flag := func(v bool, bit uint64) uint64 {
		if v {
			return 1 << bit
		}
		return 0
	}
	attempt := p.Attempt
	if n := p.recordedAttempt(); n > 0 {
		attempt = n
	}
	dst = binary.AppendUvarint(dst, flag(p.RankKnown, 0)|flag(p.recorded > 0, 1)|flag(p.Heartbeats, 2)|flag(p.Training, 3)|flag(p.Torn, 4)|flag(p.RelativeClock, 5)|
		flag(p.Steps.Contradiction, 6)|flag(p.Steps.Local, 7)|uint64(max(slices.Index(doubts[:], p.Doubt), 0))<<8|flag(p.Profile, 10)|flag(p.Steps.Begun, 11)|flag(p.Steps.GoesOn, 12)|flag(p.Cut, 13))
	for _, v := range [...]int64{int64(p.Rank), int64(attempt), p.PID, p.ParentPID, int64(p.WorldSize), p.Start, p.End, p.LastSeen, p.Spans, p.Dropped, int64(p.Bad), int64(p.Aside), int64(p.BadNumbers), p.Flush,
		int64(p.Steps.Rule), int64(p.Steps.Count), int64(p.Steps.Unnumbered)} {
		dst = binary.AppendVarint(dst, v)
	}
	for _, text := range [...]string{p.Host, p.JobID, p.SessionTag} {
		dst = columns.AppendBytes(dst, text)
	}
	dst = binary.LittleEndian.AppendUint64(dst, p.digest)
	dst = binary.AppendUvarint(dst, uint64(len(p.Sources)))
	for _, text := range p.Sources {
		dst = columns.AppendBytes(dst, text)
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.Failures)))
	for i := range p.Failures {
		f := &p.Failures[i]
		for _, text := range [...]string{f.Type, f.Text, f.Place, f.Code} {
			dst = columns.AppendBytes(dst, text)
		}
		for _, v := range [...]int64{f.Time, f.Child, f.Rank, f.Status} {
			dst = binary.AppendVarint(dst, v)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.Files)))
	for i := range p.Files {
		u := &p.Files[i]
		dst = binary.AppendVarint(columns.AppendBytes(dst, u.Path), u.Failed)
		for _, t := range u.transfers() {
			for _, v := range t.numbers() {
				dst = binary.AppendVarint(dst, *v)
			}
		}
	}
	dst = binary.AppendVarint(binary.AppendVarint(dst, p.BadLoss.At), p.BadLoss.Step)
	dst = p.Samples.append(dst)
	dst = binary.AppendUvarint(dst, uint64(len(p.Facts)))
	for _, key := range slices.Sorted(maps.Keys(p.Facts)) {
		dst = columns.AppendBytes(columns.AppendBytes(dst, key), p.Facts[key])
	}
	return dst, nil
}

// transfers returns the parts of u in the order in which they are stored.
func (u *FileUse) transfers() [3]*Transfer { return [...]*Transfer{&u.Read, &u.Written, &u.Other} }

func (t *Transfer) numbers() [6]*int64 {
	return [...]*int64{&t.Calls, &t.Bytes, &t.Time, &t.Least, &t.Most, &t.Longest}
}

// UnmarshalBinary implements [encoding.BinaryUnmarshaler].
func (p *Process) UnmarshalBinary(src []byte) error {
	r := columns.NewReader(src)
	*p = *newProcess()
	flags := r.Uint()
	for i, to := range [...]*bool{&p.RankKnown, &p.AttemptKnown, &p.Heartbeats, &p.Training, &p.Torn, &p.RelativeClock, &p.Steps.Contradiction, &p.Steps.Local} {
		*to = flags>>i&1 == 1
	}
	p.who, p.Doubt, p.Profile = nil, doubts[flags>>8&3], flags>>10&1 == 1
	p.Steps.Begun, p.Steps.GoesOn, p.Cut = flags>>11&1 == 1, flags>>12&1 == 1, flags>>13&1 == 1
	small := func() int {
		// Ranks and attempts that do not fit in an int32 are invalid.
		v := r.Int()
		if v != int64(int32(v)) {
			r.Fail()
			return 0
		}
		return int(v)
	}
	p.Rank, p.Attempt, p.PID, p.ParentPID, p.WorldSize = small(), small(), r.Int(), r.Int(), small()
	p.Start, p.End, p.LastSeen, p.Spans, p.Dropped, p.Bad, p.Aside, p.BadNumbers, p.Flush = r.Int(), r.Int(), r.Int(), r.Int(), r.Int(), small(), small(), small(), r.Int()
	p.Steps.Rule, p.Steps.Count, p.Steps.Unnumbered = vocab.StepRule(small()), small(), small()
	p.Host, p.JobID, p.SessionTag = r.String(), r.String(), r.String()
	p.digest = r.Fixed()
	for range r.Count(1) {
		p.Sources = append(p.Sources, r.String())
	}
	for range r.Count(8) {
		p.Failures = append(p.Failures, Failure{Type: r.String(), Text: r.String(), Place: r.String(), Code: r.String(), Time: r.Int(), Child: r.Int(), Rank: r.Int(), Status: r.Int()})
	}
	for range r.Count(20) {
		u := FileUse{Path: r.String(), Failed: r.Int()}
		for _, t := range u.transfers() {
			for _, v := range t.numbers() {
				*v = r.Int()
			}
		}
		p.Files = append(p.Files, u)
	}
	p.BadLoss = BadLoss{At: r.Int(), Step: r.Int()}
	p.Samples = readSamples(r)
	for range r.Count(2) {
		if p.Facts == nil {
			p.Facts = make(map[string]string)
		}
		key := r.String()
		p.Facts[key] = r.String()
	}
	if r.Err() != nil || r.Len() != 0 || p.Rank < 0 || p.Attempt < 0 || int(p.Steps.Rule) >= vocab.StepRules {
		return fmt.Errorf("run: a process: %w", columns.ErrDamaged)
	}
	return nil
}
