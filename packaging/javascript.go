package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// javascript writes the package of the JavaScript SDK for npm, which puts everything below the folder
// package. The files are built: sdk/js/dist.
func (r *release) javascript() error {
	sdk := filepath.Join(r.root, "sdk", "js")
	text, err := os.ReadFile(filepath.Join(sdk, "package.json"))
	if err != nil {
		return err
	}
	const unreleased = `"version": "0.0.0"`
	if bytes.Count(text, []byte(unreleased)) != 1 {
		return fmt.Errorf("sdk/js/package.json: want %s once", unreleased)
	}
	described := filepath.Join(r.work, "package.json")
	text = bytes.Replace(text, []byte(unreleased), fmt.Appendf(nil, `"version": %q`, r.version), 1)
	if err := os.WriteFile(described, text, 0o644); err != nil {
		return err
	}
	files := map[string]string{
		"package.json": described, "README.md": filepath.Join(sdk, "README.md"), "LICENSE": filepath.Join(r.root, "LICENSE"),
	}
	built, err := filepath.Glob(filepath.Join(sdk, "dist", "*"))
	if err != nil {
		return err
	}
	for _, path := range built {
		if name := filepath.Base(path); name != "conformance.js" {
			files["dist/"+name] = path
		}
	}
	return r.archive(filepath.Join(r.out, "sebbroker-"+r.version+".tgz"), "package", files)
}
