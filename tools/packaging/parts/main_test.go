package main

import "testing"

// TestPartOfThePage checks that the chart library of the report's page is found, with its licence.
func TestPartOfThePage(t *testing.T) {
	t.Chdir("../../..") // tools/release runs the program in the root
	p, err := ofThePage()
	if err != nil {
		t.Fatal(err)
	}
	if p.version == "" || len(p.licences()) == 0 {
		t.Errorf("got %s %s with the licences %v, want a version and a licence", p.name, p.version, p.licences())
	}
}
