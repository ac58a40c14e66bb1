package ring

import (
	"sync/atomic"
	"unsafe"

	"github.com/trainspan/trainspan/internal/platform/fsread"
)

// Version is the version of the layout. A ring buffer with another version is
// refused.
const Version = 2

// The layout. All numbers are little-endian.
const (
	magic = fsread.RingMagic // a byte with the version follows

	slotSize    = 64
	regionSlots = 8192
	regionSize  = slotSize * regionSlots
	tableAt     = 4096
	maxRegions  = 8192
	stepsBit    = 1 << 63 // marks an activation whose region has steps instead of slots
	stepSize    = 2 * slotSize
	regionSteps = regionSize / stepSize
	cellsAt     = tableAt + 16*maxRegions
	cellThreads = 16
	cellNames   = 1024
	headSize    = regionSize // the first region follows

	// Offsets of words in the header.
	atLayout      = 8 // eight words
	atRegions     = 8 + 2*8
	atPID         = 72
	atOpened      = 80
	atAnchor      = 88
	atPython      = 96
	atForks       = 104
	atTicks       = 112
	atActivations = 256
	atUsed        = 264
	atClosed      = 272
	atRefused     = 280

	// Offsets in a slot.
	atStart  = 0
	atEnd    = 8
	atThread = 16
	atDepth  = 20
	atArgs   = 24
	atValue  = 32
	atWord   = 56 // written last

	// In a file call, whose other numbers are at 24, 32 and 40.
	atFile = 48

	// In a slot with text.
	atChain  = 0
	atPiece  = 8
	atLength = 12
	atText   = 16
	textSize = 40

	// Words of a step.
	stepWord    = 0 // the id of its name, kind and flags; 0 means that stepKind is the kind, and the rest is as in the previous step
	stepBegan   = 1 // the start of the wait that it begins with; written first
	stepStart   = 2 // the start of its work, which is the end of the wait
	stepEnd     = 3 // written last
	stepPlace   = 4 // thread and depth, as in a slot
	stepNext    = 5
	stepSamples = 6
	stepKind    = 7 // the id of a name with parts
	stepParts   = 8 // starts and ends
	stepWords   = stepSize / 8

	maxText = 16384
	lasting = 1 << 20
	// Bounds for the side file.
	maxNames      = 1 << 16
	maxCategories = 1 << 10 // with a name for the names above the bound
	maxThreads    = 1 << 20
	maxMetas      = 1 << 16 // at a time
)

// Kind is what a slot records.
type Kind uint8

// The kinds of slots.
const (
	KindSpan     Kind = iota // an ended span
	KindBegin                // the begin of a long span
	KindPoint                // an instant event
	kindText                 // text for a later slot
	KindPosition             // the current epoch and step
	KindUpdate               // arguments for later spans of a node and the nodes below it
	KindState                // a node and those below it are switched on or off
	KindCall                 // a callback of one-logger
	KindNote                 // metadata with a time
	KindDrop                 // an open span was dropped
	KindFile                 // a number stands for a file from now on

	kinds
)

// Flags of a slot.
const (
	flagCrossed = 1 << 0 // ended before a span inside it
	flagFailed  = 1 << 1 // ended with an exception
	flagDated   = 1 << 2 // its end is later than the time of writing
	flagNumbers = 1 << 3 // a file call
)

// load and store access a word of a mapping that the writer accesses too. The
// mapping begins on a page and offsets are multiples of eight, so the word is
// aligned.
func load(b []byte, at int) uint64 {
	_ = b[at+7]
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&b[at])))
}

func store(b []byte, at int, v uint64) {
	_ = b[at+7]
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&b[at])), v)
}
