package pfw

import "testing"

// TestRegistryHoldsScopes checks that a scope is registered from addScope to
// removeScope, in a slot or in a locked table, independent of other scopes with the same
// lane and depth.
func TestRegistryHoldsScopes(t *testing.T) {
	var r registry
	scopes := make([]*scopeEntry, 4)
	held := make([]bool, len(scopes))
	check := func(when string) {
		t.Helper()
		n := 0
		for i, sc := range scopes {
			if sc != nil && r.holds(sc) != held[i] {
				t.Errorf("%s: scope %d is held: %v, want %v", when, i, !held[i], held[i])
			}
			if held[i] {
				n++
			}
		}
		if all := r.allScopes(); len(all) != n {
			t.Errorf("%s: allScopes() has %d scopes, want %d", when, len(all), n)
		}
	}
	for i := range scopes {
		scopes[i], held[i] = new(scopeEntry), true
		r.addScope(scopes[i], 7)
		check("added")
	}
	for _, i := range []int{2, 0, 3, 1} { // remove from the middle, the slot, the front, and the last one
		r.removeScope(scopes[i])
		held[i] = false
		check("removed")
	}
}
