package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLicences runs the check of `make release` on a repository with one dependency, a copy of
// github.com/AlekSi/pointer in which the licence is replaced.
func TestLicences(t *testing.T) {
	gpl := "                    GNU GENERAL PUBLIC LICENSE\n                       Version 3, 29 June 2007\n\n" +
		"Everyone is permitted to copy and distribute verbatim copies of this license document, but changing it is not allowed.\n"
	for _, c := range []struct {
		name, text string
		want       string // part of the error
	}{
		{"its own licence passes", "", ""},
		{"GPL fails", gpl, `licence "GNU GENERAL PUBLIC LICENSE" is not allowed`},
		{"GPL in two lines of capitals fails", "GNU AFFERO GENERAL\nPUBLIC LICENSE", `licence "GNU AFFERO GENERAL PUBLIC LICENSE" is not allowed`},
		{"GPL together with MIT fails", gpl + "\nPermission is hereby granted, free of charge", "is not allowed"},
		{"an unknown licence fails", "All rights reserved.", "no allowed licence"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := repository(t, c.text).licences()
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "github.com/AlekSi/pointer")):
				t.Errorf("got error %v, want %q and the name of the module", err, c.want)
			}
		})
	}
}

// TestVendoredLicences: each package of which the repository has files has its licence in the list
// that the console serves.
func TestVendoredLicences(t *testing.T) {
	for name, c := range map[string]struct{ file, from, to, want string }{
		"as they are":             {"licenses.txt", "", "", ""},
		"without a licence":       {"licenses.txt", "uplot\n", "others\n", `package uplot 1.6.32: licence "MIT" in VERSIONS.tsv, "" in licenses.txt`},
		"with another licence":    {"licenses.txt", "Permission is hereby granted, free of charge, to any person obtaining", "All rights reserved", `package preact 11.2.0: licence "MIT"`},
		"with a forbidden one":    {"licenses.txt", "uplot\n", "uplot\nGNU GENERAL PUBLIC LICENSE\n", `package uplot`},
		"another in VERSIONS.tsv": {"VERSIONS.tsv", "dist/uPlot.esm.js\tMIT", "dist/uPlot.esm.js\tISC", `package uplot 1.6.32: licence "ISC" in VERSIONS.tsv, "MIT"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := &release{ctx: t.Context(), root: t.TempDir()}
			if err := os.CopyFS(filepath.Join(r.root, vendored), os.DirFS(filepath.Join("..", vendored))); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(r.root, vendored, c.file)
			text, err := os.ReadFile(file)
			if err != nil || !strings.Contains(string(text), c.from) {
				t.Fatalf("%s has no %q (%v)", c.file, c.from, err)
			}
			if err := os.WriteFile(file, []byte(strings.Replace(string(text), c.from, c.to, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := r.vendoredLicences(); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}

// program is a program with the command serve and a dependency.
const program = `package main

import (
	"fmt"
	"os"

	_ "github.com/AlekSi/pointer"
)

func main() {
	switch os.Args[1] {
	case "--help":
		fmt.Println("Commands:\n  serve       Start a broker")
	case "serve":
		fmt.Println("Starts a broker.")
	case "completion":
		fmt.Println("complete seb", os.Args[2])
	}
}
`

// repository returns a release of a repository with the folders of this one. Its programs and tools
// have one dependency, github.com/AlekSi/pointer. If text is not empty, they have a copy of it with
// this licence.
func repository(t *testing.T, text string) *release {
	t.Helper()
	r := &release{ctx: t.Context()}
	original, err := r.output("go", "list", "-m", "-f", "{{.Dir}}", "github.com/AlekSi/pointer")
	if err != nil {
		t.Fatal(err)
	}
	r.root = t.TempDir()
	copies := []struct{ to, from string }{{"copied", original}, {"packaging", "."}, {vendored, filepath.Join("..", vendored)}, {"sdk/python", "../sdk/python"}}
	for _, c := range copies {
		if err := os.CopyFS(filepath.Join(r.root, c.to), os.DirFS(c.from)); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(r.root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	mod, replace := "module m\n\ngo 1.26.0\n\nrequire github.com/AlekSi/pointer v1.2.0\n\n", ""
	if text != "" {
		replace = "replace github.com/AlekSi/pointer => " + filepath.Join(r.root, "copied") + "\n\n"
		if err := os.Remove(filepath.Join(r.root, "copied/LICENSE")); err != nil {
			t.Fatal(err)
		}
		write("copied/LICENSE", text)
	}
	for _, dir := range []string{".", "bench", "migrate", "tools"} {
		write(filepath.Join(dir, "go.mod"), mod+replace+map[string]string{"tools": "tool github.com/AlekSi/pointer\n"}[dir])
		write(filepath.Join(dir, "go.sum"), string(sums))
	}
	write("cmd/seb/main.go", program)
	write("bench/cmd/seb-bench/main.go", program)
	write("migrate/cmd/seb-migrate/main.go", program)
	write("LICENSE", "Permission is hereby granted, free of charge\n")
	write("README.md", "# Seb\n")
	return r
}
