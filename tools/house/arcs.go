package main

import (
	"go/token"
	"go/types"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// arc is what one file of a package uses of another.
type arc struct {
	from, to string
	names    []string
}

// graph says which files of a package use which.
type graph struct {
	files []string
	uses  [][]map[string]bool // [from][to], the names
}

func fileGraph(p *packages.Package) *graph {
	g := &graph{}
	index := make(map[string]int)
	name := func(pos token.Pos) string { return filepath.Base(p.Fset.Position(pos).Filename) }
	for _, f := range p.Syntax {
		index[name(f.Package)] = len(g.files)
		g.files = append(g.files, name(f.Package))
	}
	g.uses = make([][]map[string]bool, len(g.files))
	for i := range g.uses {
		g.uses[i] = make([]map[string]bool, len(g.files))
	}
	for id, obj := range p.TypesInfo.Uses {
		if obj.Pkg() != p.Types || !obj.Pos().IsValid() {
			continue
		}
		if _, ok := obj.(*types.PkgName); ok {
			continue
		}
		from, known := index[name(id.Pos())]
		to, there := index[name(obj.Pos())]
		if !known || !there || from == to {
			continue
		}
		if g.uses[from][to] == nil {
			g.uses[from][to] = make(map[string]bool)
		}
		g.uses[from][to][obj.Name()] = true
	}
	return g
}

// arcs returns how many pairs of files there are of which one uses the other.
func (g *graph) arcs() (n int) {
	for _, row := range g.uses {
		for _, names := range row {
			if names != nil {
				n++
			}
		}
	}
	return n
}

// backward returns the arcs that run backwards in the best order that a search with
// restarts finds. The seed is fixed, so that two runs agree.
func (g *graph) backward() (list []arc) {
	order := g.order()
	place := make([]int, len(order))
	for at, f := range order {
		place[f] = at
	}
	for from, row := range g.uses {
		for to, names := range row {
			if names == nil || place[from] > place[to] {
				continue
			}
			a := arc{from: g.files[from], to: g.files[to]}
			for n := range names {
				a.names = append(a.names, n)
			}
			slices.Sort(a.names)
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b arc) int { return strings.Compare(a.to+" "+a.from, b.to+" "+b.from) })
	return list
}

const restarts = 60

// order returns the files such that as few as can be use a later one.
func (g *graph) order() (best []int) {
	n := len(g.files)
	rng := rand.New(rand.NewPCG(1, 1))
	fewest := -1
	for range restarts {
		order := rng.Perm(n)
		cost := g.improve(order)
		for range 20 { // shake the local optimum a little
			next := slices.Clone(order)
			for range 1 + n/10 {
				i, j := rng.IntN(n), rng.IntN(n)
				next[i], next[j] = next[j], next[i]
			}
			if c := g.improve(next); c <= cost {
				order, cost = next, c
			}
		}
		if fewest < 0 || cost < fewest {
			best, fewest = order, cost
		}
	}
	return best
}

// improve moves single files until none gains, and returns the arcs that are left.
func (g *graph) improve(order []int) int {
	for moved := true; moved; {
		moved = false
		for i := range order {
			f, gain, to := order[i], 0, i
			for step := -1; step <= 1; step += 2 {
				change := 0
				for j := i + step; j >= 0 && j < len(order); j += step {
					// f passes order[j]: what ran forwards between the two runs backwards now.
					other := order[j]
					change += step * (g.arc(other, f) - g.arc(f, other))
					if change < gain {
						gain, to = change, j
					}
				}
			}
			if to != i {
				order = slices.Insert(slices.Delete(order, i, i+1), to, f)
				moved = true
			}
		}
	}
	return g.cost(order)
}

func (g *graph) arc(from, to int) int {
	if g.uses[from][to] != nil {
		return 1
	}
	return 0
}

func (g *graph) cost(order []int) (n int) {
	for i, from := range order {
		for _, to := range order[i+1:] {
			n += g.arc(from, to)
		}
	}
	return n
}
