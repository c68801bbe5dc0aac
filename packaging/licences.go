package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// licences are the allowed licences of modules, each with a sentence of its text.
var licences = []struct{ id, text string }{
	{"Apache-2.0", "Apache License"},
	{"MPL-2.0", "Mozilla Public License"},
	{"MIT", "Permission is hereby granted, free of charge"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software"},
	{"ISC", "Permission to use, copy, modify, and distribute this software"},
	{"BSD-3-Clause", "Redistribution and use in source and binary forms"},
}

// forbidden are titles of licences that a module must not have, even together with an allowed one.
// The text of MPL-2.0 names GNU's licences, but not in capitals.
var forbidden = regexp.MustCompile(
	`GNU (AFFERO |LESSER |LIBRARY )?GENERAL PUBLIC LICENSE|Server Side Public License|Business Source License|Commons Clause`)

// licenceFile matches the names of files with the licence of a module. Licences of its pictures and
// documents have other names.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying)(\.(txt|md))?$`)

// module is a module that something is built from, without those of the repository.
type module struct{ path, version, dir string }

// modules returns the modules of the packages that arguments of `go list` select in a folder. They
// depend on the operating system.
func (r *release) modules(goos, dir string, args ...string) ([]module, error) {
	const format = `{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}`
	text, err := r.outputIn(dir, "env", append([]string{"CGO_ENABLED=0", "GOOS=" + goos, "go", "list", "-deps", "-f", format}, args...)...)
	if err != nil {
		return nil, err
	}
	var list []module
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(fields) < 3 || seen[fields[0]] || fields[2] == r.root { // the module of the root is used by the others
			continue
		}
		seen[fields[0]] = true
		list = append(list, module{fields[0], fields[1], fields[2]})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: no modules", dir)
	}
	return list, nil
}

// licences checks the licences of all modules that programs, tests and tools are built from, and of
// the sources of others in the repository.
func (r *release) licences() error {
	if err := r.vendoredLicences(); err != nil {
		return err
	}
	tests := []string{"-test", "./..."}
	for dir, args := range map[string][]string{".": tests, "bench": tests, "packaging": tests, "tools": {"tool"}} {
		for _, goos := range []string{"linux", "darwin"} {
			list, err := r.modules(goos, filepath.Join(r.root, dir), args...)
			if err != nil {
				return err
			}
			for _, m := range list {
				if _, err := licence(m.dir); err != nil {
					return fmt.Errorf("module %s %s: %w", m.path, m.version, err)
				}
			}
		}
	}
	return nil
}

// licence returns the licence of the module in a folder, found by its text.
func licence(dir string) (id string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if !licenceFile.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		found, title := licenceOf(string(text))
		if title != "" {
			return "", fmt.Errorf("%s: licence %q is not allowed", filepath.Join(dir, e.Name()), title)
		}
		id = cmp.Or(id, found)
	}
	if id == "" {
		return "", fmt.Errorf("no allowed licence in %s", dir)
	}
	return id, nil
}

// licenceOf returns the licence of a text, "" if it is none of the allowed, and the title of a
// forbidden one in it.
func licenceOf(text string) (id, title string) {
	words := strings.Join(strings.Fields(text), " ")
	for _, l := range licences {
		if id == "" && strings.Contains(words, l.text) {
			id = l.id
		}
	}
	return id, forbidden.FindString(words)
}
