package outfile

import "time"

// Block is what a [Format] adds to a file.
type Block struct {
	Data     []byte // valid until the Format is called again
	Lines    int
	Metadata int // of them metadata
}

// Part is the state of a file.
type Part struct {
	Number   int    // of the part, from 0
	Lines    int    // in the file
	Metadata int    // of them metadata
	Lost     uint64 // lines, so far and in all parts
	Last     bool   // for End: no other part follows
	Again    bool   // for Begin: it takes the place of a file that vanished
}

// Gap is lines that are missing.
type Gap struct {
	Lines    int
	From, To time.Time
	Cause    error
}

// Format adds what a file needs besides the blocks. Its methods are called by
// one goroutine at a time. It may be nil.
type Format interface {
	// Begin is the start of a file.
	Begin(Part) Block
	// Encode is what becomes of a block in the file. After a failed write the
	// same block may be asked for again, with Begin for a new file in between.
	Encode(data []byte) []byte
	// Gap is what the file says of lines that are missing.
	Gap(Gap) Block
	// End is the end of a file.
	End(Part) Block
}
