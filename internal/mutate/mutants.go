package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// mutant is one change of a file.
type mutant struct {
	path     string
	text     string // of the file when it was read
	line     int
	from, to int // bytes of the file
	old, new string
}

// String is what a person has to see of it.
func (m *mutant) String() string {
	path := m.path
	if dir, err := os.Getwd(); err == nil {
		if short, err := filepath.Rel(dir, m.path); err == nil && !strings.HasPrefix(short, "..") {
			path = short
		}
	}
	short := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if m.new == nothing {
		return fmt.Sprintf("%s:%d: without %s", path, m.line, short(m.old))
	}
	return fmt.Sprintf("%s:%d: %s becomes %s", path, m.line, short(m.old), short(m.new))
}

// apply returns the file with the change.
func (m *mutant) apply() string { return m.text[:m.from] + m.new + m.text[m.to:] }

// nothing stands for a statement that is left out.
const nothing = "{}"

// swapped are operators and what they become.
var swapped = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR, token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LAND: token.LOR, token.LOR: token.LAND, token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL,
}

// mutants lists all changes of a file.
func mutants(path string) ([]mutant, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := &finder{path: path, text: string(text), fset: token.NewFileSet()}
	file, err := parser.ParseFile(f.fset, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			continue
		}
		ast.Inspect(d, f.node)
	}
	return f.list, nil
}

type finder struct {
	path, text string
	fset       *token.FileSet
	list       []mutant
}

// add notes that the text of a node becomes another.
func (f *finder) add(from, to token.Pos, text string) {
	at, end := f.fset.Position(from), f.fset.Position(to)
	f.list = append(f.list, mutant{path: f.path, text: f.text, line: at.Line, from: at.Offset, to: end.Offset, old: f.text[at.Offset:end.Offset], new: text})
}

func (f *finder) source(n ast.Node) string {
	return f.text[f.fset.Position(n.Pos()).Offset:f.fset.Position(n.End()).Offset]
}

// node finds what can be changed in a node.
func (f *finder) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt:
		f.condition(n.Cond)
	case *ast.ForStmt:
		f.condition(n.Cond)
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.BasicLit:
		if n.Kind == token.INT {
			if v, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
				f.add(n.Pos(), n.End(), strconv.FormatInt(v+1, 10))
			}
		}
	case *ast.Ident:
		if other, ok := map[string]string{"true": "false", "false": "true"}[n.Name]; ok {
			f.add(n.Pos(), n.End(), other)
		}
	case *ast.CallExpr:
		if name, ok := n.Fun.(*ast.Ident); ok && (name.Name == "min" || name.Name == "max") {
			f.add(name.Pos(), name.End(), map[string]string{"min": "max", "max": "min"}[name.Name])
		}
	case *ast.BlockStmt:
		f.statements(n.List)
	case *ast.CaseClause:
		f.statements(n.Body)
	case *ast.CommClause:
		f.statements(n.Body)
	}
	return true
}

func (f *finder) condition(x ast.Expr) {
	if x != nil {
		f.add(x.Pos(), x.End(), "!("+f.source(x)+")")
	}
}

func (f *finder) binary(n *ast.BinaryExpr) {
	other, ok := swapped[n.Op]
	if !ok {
		return
	}
	f.add(n.Pos(), n.End(), f.source(n.X)+" "+other.String()+" "+f.source(n.Y))
	one, ok := n.Y.(*ast.BasicLit)
	if ok && one.Value == "1" && (n.Op == token.ADD || n.Op == token.SUB) {
		f.add(n.Pos(), n.End(), f.source(n.X))
	}
	if n.Op == token.LAND || n.Op == token.LOR {
		f.add(n.Pos(), n.End(), f.source(n.X))
		f.add(n.Pos(), n.End(), f.source(n.Y))
	}
}

// statements leaves one out. What is declared is needed.
func (f *finder) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt, *ast.BranchStmt:
			f.add(s.Pos(), s.End(), nothing)
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				f.add(s.Pos(), s.End(), nothing)
			}
		case *ast.ReturnStmt:
			if len(s.Results) == 0 {
				f.add(s.Pos(), s.End(), nothing)
			}
		}
	}
}
