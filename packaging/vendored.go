package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// vendored is the folder with sources of others that are part of the web console.
const vendored = "internal/console/thirdparty"

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
