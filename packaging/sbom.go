package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
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

// sbom writes the modules of a program, with their licences, as CycloneDX. A module without an
// allowed licence is an error.
func (r *release) sbom(program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.time.Format("2006-01-02T15:04:05Z"),
		Component: &cdx.Component{BOMRef: "seb", Type: cdx.ComponentTypeApplication, Name: "seb", Version: r.version},
	}
	components := []cdx.Component{{
		BOMRef: "pkg:golang/std@" + info.GoVersion, Type: cdx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion,
		PackageURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"), Licenses: licensed("BSD-3-Clause"),
	}}
	for _, m := range info.Deps {
		id, err := r.licence(m)
		if err != nil {
			return err
		}
		url := "pkg:golang/" + m.Path + "@" + m.Version
		components = append(components, cdx.Component{
			BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: url, Licenses: licensed(id),
		})
	}
	bom.Components = &components
	out, err := os.Create(filepath.Join(r.out, "seb_"+r.version+"_sbom.cdx.json"))
	if err != nil {
		return err
	}
	defer out.Close()
	return cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

func licensed(id string) *cdx.Licenses {
	return &cdx.Licenses{{License: &cdx.License{ID: id}}}
}

// licence returns the licence of a module, found by a text in its folder.
func (r *release) licence(m *debug.Module) (id string, err error) {
	dir, err := r.output("go", "list", "-m", "-f", "{{.Dir}}", m.Path)
	if err != nil {
		return "", err
	}
	names, err := filepath.Glob(filepath.Join(dir, "[LC][IO][CP][EY]*"))
	if err != nil {
		return "", err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		words := strings.Join(strings.Fields(string(text)), " ")
		for _, l := range licences {
			if strings.Contains(words, l.text) {
				return l.id, nil
			}
		}
	}
	return "", fmt.Errorf("module %s %s: no allowed licence in %s", m.Path, m.Version, dir)
}
