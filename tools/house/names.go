package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// use says who needs a name outside of its package, the strongest first.
type use int

const (
	byUser      use = iota // examples, documents, the adapter, the exporter, end-to-end tests
	bySignature            // the type of a name that users use mentions it
	bySibling              // another package of the product alone
	byInterface            // what calls it knows only the interface
	byTest                 // tests and what is there for tests
	byOwn                  // its own package alone
	byNobody
	uses
)

var useNames = [uses]string{"users", "by signature", "siblings only", "interfaces", "tests", "own package", "nobody"}

// name is one that a package exports.
type name struct {
	key  string // Type.Method or Name
	obj  types.Object
	recv *types.TypeName // of a method
	use  use
}

// exported returns the names that a package exports. Those of an internal type that
// it gives a public name to count as its own.
func exported(p *packages.Package) (list []name) {
	scope := p.Types.Scope()
	for _, n := range scope.Names() {
		obj := scope.Lookup(n)
		if !obj.Exported() {
			continue
		}
		list = append(list, name{key: n, obj: obj})
		tn, ok := obj.(*types.TypeName)
		if !ok {
			continue
		}
		named, ok := types.Unalias(tn.Type()).(*types.Named)
		if !ok || tn.IsAlias() && !hidden(named.Obj()) {
			continue
		}
		for m := range named.Methods() {
			if m.Exported() {
				list = append(list, name{key: n + "." + m.Name(), obj: m, recv: tn})
			}
		}
		if i, ok := named.Underlying().(*types.Interface); ok {
			for m := range i.ExplicitMethods() {
				if m.Exported() {
					list = append(list, name{key: n + "." + m.Name(), obj: m, recv: tn})
				}
			}
		}
	}
	return list
}

// hidden reports whether a type is declared in an internal package of ours.
func hidden(obj *types.TypeName) bool {
	return obj.Pkg() != nil && below(obj.Pkg().Path(), module) && strings.Contains("/"+obj.Pkg().Path()+"/", "/internal/")
}

// id names an object whichever way its package was loaded: path, type of a method, name.
func id(obj types.Object) string {
	if obj == nil || obj.Pkg() == nil {
		return ""
	}
	path := obj.Pkg().Path() + "."
	if fn, ok := obj.(*types.Func); ok {
		if recv := fn.Origin().Signature().Recv(); recv != nil {
			t := recv.Type()
			if ptr, ok := types.Unalias(t).(*types.Pointer); ok {
				t = ptr.Elem()
			}
			if named, ok := types.Unalias(t).(*types.Named); ok {
				path += named.Obj().Name() + "."
			}
		}
	}
	return path + obj.Name()
}

// users are the folders whose programs use the product as programs of others would.
var users = []string{"examples", "integrations/gomlx", "collector/dftracerexporter", "e2e"}

// usage collects who uses which objects.
type usage map[string][uses]bool

func (u usage) add(id string, by use) {
	all := u[id]
	all[by] = true
	u[id] = all
}

// collect takes all that the files of a package use of ours.
func (u usage) collect(p *packages.Package, shipped map[string]bool) {
	test := isTest(p)
	path := short(p.PkgPath)
	for _, f := range p.Syntax {
		inTest := strings.HasSuffix(p.Fset.Position(f.Package).Filename, "_test.go")
		if test && !inTest {
			continue // the package was there without its tests already
		}
		for _, d := range f.Decls {
			by := byTest
			switch fn, ok := d.(*ast.FuncDecl); {
			case inTest && below(path, "e2e"):
				by = byUser
			case inTest && ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Example"):
				by = byUser
			case inTest:
			case below(path, users...):
				by = byUser
			case shipped[p.PkgPath]:
				by = bySibling
			}
			u.declaration(p, d, by)
		}
	}
}

func (u usage) declaration(p *packages.Package, d ast.Decl, by use) {
	own := strings.TrimSuffix(p.PkgPath, "_test")
	ast.Inspect(d, func(n ast.Node) bool {
		ident, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		obj := p.TypesInfo.Uses[ident]
		if obj == nil || obj.Pkg() == nil || !obj.Exported() || !below(obj.Pkg().Path(), module) {
			return true
		}
		as := by
		if obj.Pkg().Path() == own && by != byTest && !strings.HasPrefix(declared(d), "Example") {
			as = byOwn
		}
		u.add(id(obj), as)
		return true
	})
}

func declared(d ast.Decl) string {
	if fn, ok := d.(*ast.FuncDecl); ok {
		return fn.Name.Name
	}
	return ""
}

// judge says of each exported name of the public packages who needs it.
func judge(all []*packages.Package, public []*facts, used usage) {
	named := interfaces(all)
	reached := reach(public, used)
	for _, f := range public {
		for i := range f.names {
			n := &f.names[i]
			n.use = used.of(n, reached, named)
			f.byUse[n.use]++
		}
	}
}

func (u usage) of(n *name, reached map[string]bool, named map[string][]*types.Named) use {
	all := u[id(n.obj)]
	if n.recv == nil { // an alias is used by its own name, or by that of what it names
		if tn, ok := n.obj.(*types.TypeName); ok && tn.IsAlias() {
			if t, ok := types.Unalias(tn.Type()).(*types.Named); ok && hidden(t.Obj()) && reached[id(t.Obj())] {
				all[bySignature] = true
			}
		}
	}
	switch {
	case all[byUser]:
		return byUser
	case n.recv == nil && (reached[id(n.obj)] || reachedConst(n.obj, reached)) || all[bySignature]:
		return bySignature
	case all[bySibling]:
		return bySibling
	case n.recv != nil && satisfies(n, named):
		return byInterface
	case all[byTest]:
		return byTest
	case all[byOwn]:
		return byOwn
	}
	return byNobody
}

// reachedConst reports whether an object is a constant of a type that users meet.
func reachedConst(obj types.Object, reached map[string]bool) bool {
	c, ok := obj.(*types.Const)
	if !ok {
		return false
	}
	named, ok := types.Unalias(c.Type()).(*types.Named)
	return ok && reached[id(named.Obj())]
}

// reach returns the types that the names of users mention, and these in turn: results,
// parameters and exported fields.
func reach(public []*facts, used usage) map[string]bool {
	reached := make(map[string]bool)
	var visit func(t types.Type, depth int)
	visit = func(t types.Type, depth int) {
		switch t := t.(type) {
		case *types.Alias:
			reached[id(t.Obj())] = true
			visit(types.Unalias(t), depth)
		case *types.Named:
			key := id(t.Obj())
			for arg := range t.TypeArgs().Types() {
				visit(arg, depth)
			}
			if t.Obj().Pkg() == nil || !below(t.Obj().Pkg().Path(), module) || reached[key] && depth > 0 {
				return
			}
			reached[key] = true
			visit(t.Underlying(), depth+1)
		case *types.Pointer:
			visit(t.Elem(), depth)
		case *types.Slice:
			visit(t.Elem(), depth)
		case *types.Array:
			visit(t.Elem(), depth)
		case *types.Chan:
			visit(t.Elem(), depth)
		case *types.Map:
			visit(t.Key(), depth)
			visit(t.Elem(), depth)
		case *types.Signature:
			for v := range t.Params().Variables() {
				visit(v.Type(), depth)
			}
			for v := range t.Results().Variables() {
				visit(v.Type(), depth)
			}
		case *types.Struct:
			for f := range t.Fields() {
				if f.Exported() {
					visit(f.Type(), depth)
				}
			}
		case *types.Interface:
			for m := range t.ExplicitMethods() {
				visit(m.Type(), depth)
			}
		}
	}
	for _, f := range public {
		for _, n := range f.names {
			if used[id(n.obj)][byUser] {
				visit(n.obj.Type(), 0)
			}
		}
	}
	return reached
}

// interfaces returns all that are declared in what was loaded or imported, by the
// names of their methods.
func interfaces(all []*packages.Package) map[string][]*types.Named {
	named := make(map[string][]*types.Named)
	seen := make(map[string]bool)
	var visit func(p *types.Package)
	visit = func(p *types.Package) {
		if seen[p.Path()] {
			return
		}
		seen[p.Path()] = true
		for _, n := range p.Scope().Names() {
			tn, ok := p.Scope().Lookup(n).(*types.TypeName)
			if !ok || tn.IsAlias() {
				continue
			}
			t, ok := tn.Type().(*types.Named)
			if !ok || t.TypeParams().Len() > 0 {
				continue
			}
			if i, ok := t.Underlying().(*types.Interface); ok {
				for m := range i.Methods() {
					named[m.Name()] = append(named[m.Name()], t)
				}
			}
		}
		for _, i := range p.Imports() {
			visit(i)
		}
	}
	for _, p := range all {
		visit(p.Types)
	}
	return named
}

// byErrors are the methods that package errors asks for by interfaces without a name.
var byErrors = []string{"Unwrap", "Is", "As", "Error"}

// satisfies reports whether a method is one of an interface, of another type, that its
// type has all methods of.
func satisfies(n *name, named map[string][]*types.Named) bool {
	if slices.Contains(byErrors, n.obj.Name()) {
		return true
	}
	t := types.Unalias(n.recv.Type())
	if own, ok := t.(*types.Named); ok && own.TypeParams().Len() > 0 {
		return false
	}
	if types.IsInterface(t) {
		return false
	}
	for _, i := range named[n.obj.Name()] {
		if has(types.NewPointer(t), i.Underlying().(*types.Interface)) {
			return true
		}
	}
	return false
}

// has reports whether a type has the methods of an interface, with the same types by
// name: one package may have been loaded twice.
func has(t types.Type, i *types.Interface) bool {
	set := types.NewMethodSet(t)
	for m := range i.Methods() {
		sel := set.Lookup(m.Pkg(), m.Name())
		if sel == nil || signature(sel.Obj()) != signature(m) {
			return false
		}
	}
	return true
}

func signature(obj types.Object) string {
	sig, ok := obj.Type().(*types.Signature)
	if !ok {
		return ""
	}
	return types.TypeString(types.NewSignatureType(nil, nil, nil, unnamed(sig.Params()), unnamed(sig.Results()), sig.Variadic()),
		func(p *types.Package) string { return p.Path() })
}

func unnamed(t *types.Tuple) *types.Tuple {
	vars := make([]*types.Var, 0, t.Len())
	for v := range t.Variables() {
		vars = append(vars, types.NewVar(token.NoPos, nil, "", v.Type()))
	}
	return types.NewTuple(vars...)
}
