package main

import (
	"debug/buildinfo"
	"errors"
	"os"
	"path/filepath"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

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
