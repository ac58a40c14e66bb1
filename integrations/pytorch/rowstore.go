package pytorch

import "github.com/trainspan/trainspan/internal/spill"

// rowStore holds the rows of a file between the passes, in the orders in which
// they are asked for.
type rowStore struct {
	host     *spill.Sorter[row]   // host rows and instants by lane
	join     *spill.Sorter[row]   // launches and device rows by correlation
	device   *spill.Sorter[row]   // device rows, resolved, by time
	onHost   *spill.Sorter[share] // device time by ordinal of the launch
	launches *spill.Sorter[share] // device time by launch
	pairs    *spill.Sorter[row]   // operators of forward and backward by sequence number
	ties     *spill.Sorter[row]   // the same, resolved, by ordinal
}

// newRowStore returns a store that holds memory bytes of rows. What stays until the
// events are written shares one file over all ranks.
func newRowStore(shared *spill.Store, memory int64, dir string) rowStore {
	part := func(sixteenths int64) int { return int(memory * sixteenths / 16) }
	return rowStore{
		host:     spill.NewIn(rowCodec(laneOrder), part(7), shared),
		join:     spill.New(rowCodec(correlationOrder), part(3), dir),
		device:   spill.NewIn(rowCodec(timeOrder), part(2), shared),
		onHost:   spill.NewIn(shareCodec(), part(1), shared),
		launches: spill.NewIn(shareCodec(), part(1), shared),
		pairs:    spill.New(rowCodec(bySequence), part(1), dir),
		ties:     spill.NewIn(rowCodec(ordinalOrder), part(1), shared),
	}
}

// sorter is what all sorters have in common.
type sorter interface {
	Flush() error
	Close() error
	Spilled() int64
}

func (s *rowStore) all() []sorter {
	return []sorter{s.host, s.join, s.device, s.onHost, s.pairs, s.ties, s.launches}
}

func (s *rowStore) close() {
	for _, x := range s.all() {
		_ = x.Close() // temporary files
	}
}

// flush returns the memory of the rows back while other files are read.
func (s *rowStore) flush() error {
	for _, x := range s.all() {
		if err := x.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// spilled counts the bytes that went through a temporary file.
func (s *rowStore) spilled() (n int64) {
	for _, x := range s.all() {
		n += x.Spilled()
	}
	return n
}
