package main

import (
	"go/ast"
	"go/scanner"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// file is how long a file is.
type file struct {
	name  string // from the root
	lines int
	code  int // lines with more than comments
}

// typ is a type with what it holds.
type typ struct {
	name            string
	fields, methods int
	files           int // that declare its methods
}

// facts are what is counted of one package.
type facts struct {
	pkg    *packages.Package
	path   string
	public bool
	files  []file
	types  []typ // the largest first
	arcs   int
	back   []arc
	names  []name
	byUse  [uses]int // of a public package
}

func (f *facts) lines() (lines, code int) {
	for _, file := range f.files {
		lines += file.lines
		code += file.code
	}
	return lines, code
}

// measure counts what needs no other package.
func measure(root string, p *packages.Package) *facts {
	f := &facts{pkg: p, path: short(p.PkgPath), public: public(p), types: typesOf(p)}
	for _, path := range p.GoFiles {
		f.files = append(f.files, fileOf(root, path))
	}
	g := fileGraph(p)
	f.arcs, f.back = g.arcs(), g.backward()
	f.names = exported(p)
	return f
}

func fileOf(root, path string) (f file) {
	src, err := os.ReadFile(path)
	if err != nil {
		return file{name: path}
	}
	f.name = path
	if abs, err := filepath.Abs(root); err == nil {
		if rel, err := filepath.Rel(abs, path); err == nil {
			f.name = rel
		}
	}
	f.lines = strings.Count(string(src), "\n")
	var s scanner.Scanner
	set := token.NewFileSet()
	at := set.AddFile(path, -1, len(src))
	s.Init(at, src, nil, 0)
	seen := 0
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return f
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue
		}
		first := at.Line(pos)
		last := first + strings.Count(lit, "\n")
		f.code += max(0, last-max(first, seen+1)+1)
		seen = max(seen, last)
	}
}

// typesOf returns the types that are declared in a package and hold most.
func typesOf(p *packages.Package) (list []typ) {
	methods := make(map[string]map[string]int) // type, file
	for _, f := range p.Syntax {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || len(fn.Recv.List) == 0 {
				continue
			}
			n := receiver(fn.Recv.List[0].Type)
			if methods[n] == nil {
				methods[n] = make(map[string]int)
			}
			methods[n][p.Fset.Position(fn.Pos()).Filename]++
		}
	}
	for _, n := range p.Types.Scope().Names() {
		obj, ok := p.Types.Scope().Lookup(n).(*types.TypeName)
		if !ok || obj.IsAlias() {
			continue
		}
		t := typ{name: n, files: len(methods[n])}
		for _, k := range methods[n] {
			t.methods += k
		}
		switch u := obj.Type().Underlying().(type) {
		case *types.Struct:
			t.fields = u.NumFields()
		case *types.Interface:
			t.methods = u.NumMethods()
		}
		list = append(list, t)
	}
	slices.SortStableFunc(list, func(a, b typ) int { return max(b.fields, b.methods) - max(a.fields, a.methods) })
	return list
}

func receiver(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
