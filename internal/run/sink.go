package run

// Sink takes what one process recorded. Its methods are called one at a time.
type Sink interface {
	// Span is called for each span, in any order. A span whose begin was
	// recorded may come twice, open and then ended, with the same ID. It is
	// valid during the call; its strings stay valid.
	Span(*Span)

	// Event is called for each event, in any order.
	Event(*Event)

	// Close is called once, after the last call and when the times of the
	// process are known.
	Close() error
}

// FileError says why a file was left out.
type FileError struct {
	Path string
	Err  error
}

func (e *FileError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *FileError) Unwrap() error { return e.Err }
