//go:build !linux && !darwin

package fswrite

import "errors"

func renameNoReplace(string, string) error { return errors.ErrUnsupported }

func renameExchange(string, string) error { return errors.ErrUnsupported }
