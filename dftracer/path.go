package dftracer

import (
	"strconv"
	"strings"
)

const (
	extPlain = ".pfw"
	extGzip  = ".pfw.gz"
)

// ExpandPath replaces {rank}, {pid} and {host} in a path. Empty fields of p
// are filled in from the running process.
func ExpandPath(path string, rank int, p Process) string {
	p = p.withDefaults()
	return strings.NewReplacer(
		"{rank}", strconv.Itoa(rank),
		"{pid}", strconv.Itoa(p.PID),
		"{host}", strings.ReplaceAll(p.Host, "/", "_"),
	).Replace(path)
}

// HashedPath returns the name that the reference gives to a trace:
// <prefix>-<hash16>-app.pfw.gz, or .pfw for plain text, where the hash is that
// of program, host and process id. An extension .pfw or .pfw.gz of the prefix is dropped.
func HashedPath(prefix string, p Process, plain bool) string {
	p = p.withDefaults()
	h := V2.Hash(p.Exec + "-" + p.Host + "-" + strconv.Itoa(p.PID))
	ext := extGzip
	if plain {
		ext = extPlain
	}
	stem, _ := splitExt(prefix)
	return stem + "-" + h.Text(V2) + "-app" + ext
}

// splitExt cuts a known extension off a path.
func splitExt(path string) (stem, ext string) {
	for _, ext := range [...]string{extGzip, extPlain, ".gz"} {
		if stem, ok := strings.CutSuffix(path, ext); ok && stem != "" {
			return stem, ext
		}
	}
	return path, ""
}

// partPath names the n-th continuation of a trace.
func partPath(path string, n int) string {
	stem, ext := splitExt(path)
	return stem + "." + strconv.Itoa(n) + ext
}

// resolvePath returns the path to create and settles the compression. A known
// extension follows an explicit choice of compression; tools go by the name.
func (o *Options) resolvePath(path string) string {
	rank := 0
	if o.Rank != nil {
		rank = *o.Rank
	}
	path = ExpandPath(path, rank, o.Process)
	if o.Compression == CompressAuto {
		o.Compression = CompressMembers
		if strings.HasSuffix(path, extPlain) {
			o.Compression = CompressNone
		}
	}
	plainText := o.Compression == CompressNone
	if o.HashName {
		return HashedPath(path, o.Process, plainText)
	}
	stem, ext := splitExt(path)
	switch {
	case plainText && ext == extGzip:
		return stem + extPlain
	case !plainText && ext == extPlain:
		return stem + extGzip
	}
	return path
}
