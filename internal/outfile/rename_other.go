//go:build !linux && !darwin

package outfile

import "errors"

func renameNoReplace(string, string) error { return errors.ErrUnsupported }

func renameExchange(string, string) error { return errors.ErrUnsupported }
