package fswrite

import "golang.org/x/sys/unix"

func renameNoReplace(from, to string) error { return unix.RenamexNp(from, to, unix.RENAME_EXCL) }

func renameExchange(a, b string) error { return unix.RenamexNp(a, b, unix.RENAME_SWAP) }
