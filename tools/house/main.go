// Command house counts what makes a house large: code lines, exported names and who
// uses them, references between the files of a package that run backwards, and the
// types with the most fields and methods.
//
//	make house                       all packages, and the totals
//	make house PKG=./exporters/pfw   one package in detail, in seconds
//
// A name that a package exports counts once: constants, variables, functions, types,
// and the exported methods of exported types and interfaces; fields do not count. It
// is a user's where an example, a snippet of the documents, the adapter of GoMLX, the
// exporter of the Collector or the end-to-end tests use it, as programs of users
// would. It is by signature where the type of a user's name mentions it. What is left
// is for siblings, for an interface, for tests, for its own package or for nobody.
//
// A reference runs backwards when a file uses what is declared in a later one; the
// order of the files is the one with the fewest such pairs of files.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("house: ")
	root := flag.String("root", ".", "the root of the repository")
	names := flag.Bool("names", false, "with a package: list its exported names by who uses them, which needs all packages")
	flag.Parse()
	if flag.NArg() > 1 {
		log.Fatal("name one package, such as ./exporters/pfw, or none for all of them")
	}
	if err := run(*root, flag.Arg(0), *names); err != nil {
		log.Fatal(err)
	}
}

func run(root, pkg string, names bool) error {
	if pkg != "" && !names {
		ps, err := loadOne(root, pkg)
		if err != nil {
			return err
		}
		for _, p := range ps {
			printPackage(os.Stdout, measure(root, p))
		}
		return nil
	}
	h, err := count(root)
	if err != nil {
		return err
	}
	if pkg != "" {
		f := h.find(pkg)
		if f == nil {
			return fmt.Errorf("%s is no package of the product", pkg)
		}
		printPackage(os.Stdout, f)
		printNames(os.Stdout, f)
		return nil
	}
	printHouse(os.Stdout, h)
	for _, line := range h.slack() {
		fmt.Println("its limit can go down:", line)
	}
	over := h.exceeded()
	for _, line := range over {
		fmt.Println("over its limit:", line)
	}
	if len(over) > 0 {
		os.Exit(1)
	}
	return nil
}
