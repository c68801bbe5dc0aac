package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// pythonVersion returns a version as Python writes it: 1.2.3-rc.1 is no release, and becomes 1.2.3+rc.1, which
// PyPI refuses.
func pythonVersion(version string) string {
	release, rest, pre := strings.Cut(version, "-")
	if pre {
		release += "+" + strings.ReplaceAll(rest, "-", ".")
	}
	return release
}

// wheel packs the Python client. A wheel is a zip with the modules, their description and their checksums, so
// that a release needs no Python.
func (r *release) wheel() error {
	version := pythonVersion(r.version)
	files, err := r.wheelFiles(version)
	if err != nil {
		return err
	}
	info := "sebbroker-" + version + ".dist-info"
	var record bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sum := sha256.Sum256(files[name])
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(files[name]))
	}
	fmt.Fprintf(&record, "%s/RECORD,,\n", info)
	files[info+"/RECORD"] = record.Bytes()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: r.time}
		h.SetMode(0o644)
		f, err := w.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := f.Write(files[name]); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "sebbroker-"+version+"-py3-none-any.whl"), b.Bytes(), 0o644)
}

// moduleVersion is the line of the client with its version.
var moduleVersion = regexp.MustCompile(`(?m)^VERSION = ".*"$`)

// wheelFiles returns the files of the wheel by name, without RECORD.
func (r *release) wheelFiles(version string) (map[string][]byte, error) {
	folder := filepath.Join(r.root, "sdk", "python")
	files := map[string][]byte{}
	for _, pattern := range []string{"*.py", "*/*.py", "py.typed"} {
		found, err := filepath.Glob(filepath.Join(folder, "src", "sebbroker", pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range found {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			name, err := filepath.Rel(filepath.Join(folder, "src"), file)
			if err != nil {
				return nil, err
			}
			files[filepath.ToSlash(name)] = moduleVersion.ReplaceAll(text, []byte(`VERSION = "`+version+`"`))
		}
	}
	metadata, err := wheelMetadata(folder, version)
	if err != nil {
		return nil, err
	}
	licence, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	info := "sebbroker-" + version + ".dist-info"
	files[path.Join(info, "METADATA")] = metadata
	files[path.Join(info, "licenses", "LICENSE")] = licence
	files[path.Join(info, "WHEEL")] = []byte("Wheel-Version: 1.0\nGenerator: seb\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
	return files, nil
}

// wheelMetadata returns the description of the wheel, from pyproject.toml and README.md.
func wheelMetadata(folder, version string) ([]byte, error) {
	project, err := os.ReadFile(filepath.Join(folder, "pyproject.toml"))
	if err != nil {
		return nil, err
	}
	readme, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "Metadata-Version: 2.4\nName: sebbroker\nVersion: %s\n", version)
	for _, m := range []struct{ name, pattern string }{
		{"Summary: ", `description = "(.*)"`},
		{"License-Expression: ", `license = "(.*)"`},
		{"Requires-Python: ", `requires-python = "(.*)"`},
		{"Requires-Dist: ", `dependencies = \["([^"]*)"\]`},
		{"Project-URL: Repository, ", `Repository = "(.*)"`},
	} {
		value := regexp.MustCompile(`(?m)^` + m.pattern + `$`).FindSubmatch(project)
		if value == nil {
			return nil, fmt.Errorf("pyproject.toml has no line %s", m.pattern)
		}
		fmt.Fprintf(&b, "%s%s\n", m.name, value[1])
	}
	fmt.Fprintf(&b, "License-File: LICENSE\nClassifier: Typing :: Typed\nDescription-Content-Type: text/markdown\n\n%s", readme)
	return b.Bytes(), nil
}
