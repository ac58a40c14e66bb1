package dftracer

import (
	"errors"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/outfile"
)

const (
	extPlain = ".pfw"
	extGzip  = ".pfw.gz"
)

// hashedPath returns the name that the reference gives to a trace:
// <prefix>-<hash16>-app.pfw.gz, or .pfw for plain text, where the hash is that
// of program, host and process id. An extension .pfw or .pfw.gz of the prefix is dropped.
func hashedPath(prefix string, p Process, plain bool) string {
	p = p.withDefaults()
	h := dft.HashOf(V2, p.Exec+"-"+p.Host+"-"+strconv.Itoa(p.PID))
	ext := extGzip
	if plain {
		ext = extPlain
	}
	stem, _ := splitExt(prefix)
	return stem + "-" + dft.HashText(h, V2) + "-app" + ext
}

// splitExt cuts an extension of a trace off a path.
func splitExt(path string) (stem, ext string) {
	for _, ext := range [...]string{extGzip, extPlain, ".gz"} {
		if stem, ok := strings.CutSuffix(path, ext); ok && stem != "" {
			return stem, ext
		}
	}
	return path, ""
}

// resolvePath returns the path to create and settles the compression. A known
// extension follows an explicit choice of compression; tools go by the name.
func (o *Options) resolvePath(path string) (string, error) {
	if path == "" {
		return "", errors.New("there is no path: name the file to write")
	}
	name := outfile.Name{Path: path, Rank: o.Process.Rank, WorldSize: o.Process.WorldSize, PID: o.Process.PID, Host: o.Process.Host}
	resolve := name.Resolve
	if o.HashName {
		resolve = name.Expand // such a name is unique among processes
	}
	path, err := resolve()
	if err != nil {
		return "", err
	}
	if o.Compression == CompressAuto {
		o.Compression = CompressMembers
		if strings.HasSuffix(path, extPlain) || path == outfile.Stdout {
			o.Compression = CompressNone
		}
	}
	plainText := o.Compression == CompressNone
	if o.HashName {
		return hashedPath(path, o.Process, plainText), nil
	}
	if outfile.AsIs(path) {
		return path, nil
	}
	stem, ext := splitExt(path)
	switch {
	case plainText && ext == extGzip:
		return stem + extPlain, nil
	case !plainText && ext == extPlain:
		return stem + extGzip, nil
	}
	return path, nil
}
