package config

import "fmt"

// Override is a partial configuration in the words of a file, to be laid over a
// [Base] by [Merge]: a nested map changes only the fields it names, nil clears
// a field, and anything else replaces it. Values may be functions where the
// field takes one.
type Override map[string]any

// Merge lays overrides over base, one after the other, so that later ones win.
// base itself stays as it is; functions in it are kept untouched. The result is
// not validated. The error is a [*ValidationError] with every problem.
//
// As in the reference, a base that was given has settled its error strategy
// before the overrides: switching a rank off by an override alone does not
// make its strategy quiet. A zero base settles nothing.
func Merge(base Base, overrides ...Override) (Base, error) {
	return merge(base, overrides, false)
}

// MergeLax is [Merge] for overrides that were written for the reference, which
// ignores keys that no field has.
func MergeLax(base Base, overrides ...Override) (Base, error) {
	return merge(base, overrides, true)
}

func merge(base Base, overrides []Override, lax bool) (Base, error) {
	out := Clone(&base)
	if len(overrides) > 0 && base.given() {
		settled := base.WithDefaults(Ranks{})
		out.Logger.Level, out.ErrorStrategy = settled.Logger.Level, settled.ErrorStrategy
	}
	d := decoder{allowUnknown: lax}
	for i, o := range overrides {
		before := len(d.found.list)
		d.root(goNode(o), &out)
		if len(overrides) == 1 {
			continue
		}
		for j := before; j < len(d.found.list); j++ {
			d.found.list[j].Where = fmt.Sprintf("override %d", i+1)
		}
	}
	return out, d.found.err()
}

// given reports a base that somebody filled in from a zero one.
func (b *Base) given() bool {
	return b.ApplicationName != "" || b.SessionTag.IsSet() || b.WorldSize.IsSet()
}
