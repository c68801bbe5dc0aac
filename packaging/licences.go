package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
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
	for dir, args := range map[string][]string{".": tests, "bench": tests, "migrate": tests, "packaging": tests, "tools": {"tool"}} {
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

// vendored is the folder with sources of others that are part of the web console.
const vendored = "internal/protocols/console/thirdparty"

// vendoredPackage is a package of npm from which vendored has files.
type vendoredPackage struct{ name, version, licence string }

// vendoredPackages returns the packages that VERSIONS.tsv lists, each once.
func (r *release) vendoredPackages() ([]vendoredPackage, error) {
	f, err := os.Open(filepath.Join(r.root, vendored, "VERSIONS.tsv"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := csv.NewReader(f)
	in.Comma, in.FieldsPerRecord = '\t', 6
	rows, err := in.ReadAll()
	if err != nil {
		return nil, err
	}
	var list []vendoredPackage
	for _, row := range rows[min(1, len(rows)):] {
		if p := (vendoredPackage{row[1], row[2], row[4]}); !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: no packages", f.Name())
	}
	return list, nil
}

// vendoredLicences checks that licenses.txt, which the console serves, has the licence of each
// vendored package, and that it is an allowed one. A section begins with a line of package names.
func (r *release) vendoredLicences() error {
	list, err := r.vendoredPackages()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(r.root, vendored, "licenses.txt"))
	if err != nil {
		return err
	}
	sections, names := map[string]string{}, []string(nil)
	for line := range strings.Lines(string(text)) {
		of := strings.Split(strings.TrimSpace(line), ", ")
		if slices.ContainsFunc(list, func(p vendoredPackage) bool { return slices.Contains(of, p.name) }) {
			names = of
			continue
		}
		for _, name := range names {
			sections[name] += line
		}
	}
	for _, p := range list {
		if id, title := licenceOf(sections[p.name]); id != p.licence || title != "" {
			return fmt.Errorf("package %s %s: licence %q in VERSIONS.tsv, %q in licenses.txt", p.name, p.version, p.licence, title+id)
		}
	}
	return nil
}

// component returns the package's entry in a list of components.
func (p vendoredPackage) component() cdx.Component {
	c := component(p.name, p.version, p.licence)
	c.PackageURL = "pkg:npm/" + strings.ReplaceAll(p.name, "@", "%40") + "@" + p.version
	c.BOMRef = c.PackageURL
	return c
}

// sbom writes the modules of a program, and the vendored packages in it, with their licences as
// CycloneDX. They are the same for all
// architectures of an operating system. The module of the repository has the version of the
// release.
func (r *release) sbom(p platform, name string) error {
	info, err := buildinfo.ReadFile(filepath.Join(r.stage(p), name))
	if err != nil {
		return err
	}
	dirs := map[string]string{}
	for _, dir := range []string{r.root, filepath.Join(r.root, "bench")} {
		list, err := r.modules(p.os, dir, "./cmd/...")
		if err != nil {
			return err
		}
		for _, m := range list {
			dirs[m.path+" "+m.version] = m.dir
		}
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.time.Format("2006-01-02T15:04:05Z"),
		Component: &cdx.Component{BOMRef: name, Type: cdx.ComponentTypeApplication, Name: name, Version: r.version},
	}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	components := []cdx.Component{component("std", goVersion, "BSD-3-Clause")}
	for _, m := range info.Deps {
		version, dir := m.Version, dirs[m.Path+" "+m.Version]
		if m.Replace != nil { // by the folder of the repository
			version, dir = r.version, r.root
		}
		id, err := licence(dir)
		if err != nil {
			return err
		}
		components = append(components, component(m.Path, version, id))
	}
	if name == "seb" { // the console is part of it
		list, err := r.vendoredPackages()
		if err != nil {
			return err
		}
		for _, p := range list {
			components = append(components, p.component())
		}
	}
	bom.Components = &components
	out, err := os.Create(filepath.Join(r.out, name+"_"+r.version+"_"+p.os+".cdx.json"))
	if err != nil {
		return err
	}
	return errors.Join(cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6), out.Close())
}

// component returns the entry of a module.
func component(path, version, licence string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cdx.Component{
		BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: licence}}},
	}
}
