package assemble

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
)

// Made is the file of a process that is new.
type Made struct {
	Writer *dftracer.Writer
	TID    int64 // of the first lane
	Cut    Cut   // of what is known of the process
}

// maxNumber bounds the numbers that are tried for a name that is taken.
const maxNumber = 1_000_000

// Create makes the file of a process under the first name that is free: before
// the extension goes a number, and the file says that it is a further part,
// since what came before may be in an earlier one.
func Create(path string, o *dftracer.Options) (*dftracer.Writer, error) {
	o.Existing = dftracer.ExistingFail
	for n := range maxNumber {
		w, err := dftracer.Create(numbered(path, n), o)
		if err == nil && n > 0 {
			dft.WriteCustom(w, dft.KeyPart, strconv.Itoa(n))
		}
		if err == nil || !errors.Is(err, os.ErrExist) {
			return w, err
		}
	}
	return nil, fmt.Errorf("%d files like %s are there already", maxNumber, path)
}

// numbered puts a number before the extension.
func numbered(path string, n int) string {
	if n == 0 {
		return path
	}
	for _, ext := range [...]string{".pfw.gz", ".pfw"} {
		if stem, ok := strings.CutSuffix(path, ext); ok {
			return stem + "." + strconv.Itoa(n) + ext
		}
	}
	return path + "." + strconv.Itoa(n)
}
