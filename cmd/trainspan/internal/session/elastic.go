//go:build unix

package session

import (
	"encoding/json"
	"os"
	"time"

	"github.com/trainspan/trainspan/internal/platform/redact"
	"github.com/trainspan/trainspan/internal/tracefile/pytext"
)

// maxElastic bounds what is read of an error file.
const maxElastic = 1 << 20

// elasticError is the line that says what was wrong, of the file in which torchelastic's
// workers leave their exception. It is empty where there is none of this start.
func elasticError(path string, began time.Time) string {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxElastic || info.ModTime().Before(began.Truncate(time.Second)) {
		return ""
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	var file, inner struct {
		Message json.RawMessage `json:"message"`
	}
	var message string
	if json.Unmarshal(text, &file) != nil {
		return ""
	}
	if json.Unmarshal(file.Message, &inner) == nil {
		file = inner
	}
	if json.Unmarshal(file.Message, &message) != nil {
		return ""
	}
	return redact.Text(pytext.ExceptionLine(message))
}
