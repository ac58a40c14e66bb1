package summary

type procKey struct {
	host string // hash
	pid  int64
}

type process struct {
	key        procKey
	rank       string
	label      string
	events     int64
	start, end int64
	lanes      map[int64]*lane
	lastTID    int64
	lastLane   *lane
	attempt    int64                  // as its start record says it, from 0; -1 when it does not
	number     int64                  // of its attempt, see Aggregator.number
	beside     int64                  // how many of its attempt it runs beside
	busy       [classCount]*Intervals // by Class
	kernels    *Intervals             // computing on a device
	epochs     map[int64]*epoch
	lastEpoch  *epoch
}

// maxEpochs bounds the epochs of a process.
const maxEpochs = 1 << 14

type epoch struct {
	number     int64
	framed     bool // start and end are those of its own span
	start, end int64
	events     int64
	steps      int64
}

func (p *process) epochOf(number int64) *epoch {
	if p.lastEpoch != nil && p.lastEpoch.number == number {
		return p.lastEpoch
	}
	e := p.epochs[number]
	if e == nil {
		if len(p.epochs) == maxEpochs {
			return &epoch{} // for nothing: no job has that many
		}
		e = &epoch{number: number}
		p.epochs[number] = e
	}
	p.lastEpoch = e
	return e
}

// framed reports whether spans of the process say when its epochs were.
func (p *process) framed() bool {
	for _, e := range p.epochs {
		if e.framed {
			return true
		}
	}
	return false
}

func (e *epoch) note(n *name, start, end int64) {
	e.events++
	if n.step {
		e.steps++
	}
	switch {
	case n.epoch && !e.framed:
		e.framed, e.start, e.end = true, start, end
	case n.epoch:
		e.start, e.end = min(e.start, start), max(e.end, end)
	case !e.framed && e.events == 1:
		e.start, e.end = start, end
	case !e.framed:
		e.start, e.end = min(e.start, start), max(e.end, end)
	}
}
