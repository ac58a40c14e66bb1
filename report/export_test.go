package report

import "github.com/trainspan/trainspan/internal/columns"

// FirstPart is what a digest holds of the first process, unpacked.
func FirstPart(s *State) ([]byte, error) { return s.procs[0].append(nil) }

// StateOfPart is a State with one process.
func StateOfPart(part []byte) (*State, error) {
	p, err := readProcess(columns.NewReader(part))
	if err != nil {
		return nil, err
	}
	return &State{procs: []*process{p}}, nil
}
