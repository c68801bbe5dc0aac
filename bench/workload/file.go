package workload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// File is the content of a YAML file: a workload and its targets.
type File struct {
	Workload `yaml:",inline"`
	Preset   string   `yaml:"preset"` // name of the preset that the file changes
	Targets  []Target `yaml:"targets"`
}

// fileMax is the largest file that is read.
const fileMax = 1 << 20

// Read reads the preset of the given name, or else the file of that name. Missing fields are as in
// Default. Read does not validate the workload, because flags may still change it.
func Read(name string) (File, error) {
	if w, ok := Preset(name); ok {
		return File{Workload: w, Preset: name}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) && !strings.ContainsAny(name, "./") {
			return File{}, fmt.Errorf("%q is no file and no preset; the presets are %s", name, strings.Join(Presets(), ", "))
		}
		return File{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, fileMax+1))
	if err != nil {
		return File{}, fmt.Errorf("read workload %s: %w", name, err)
	}
	if len(text) > fileMax {
		return File{}, fmt.Errorf("read workload %s: it is larger than %d bytes", name, fileMax)
	}
	file, err := Parse(text)
	if err != nil {
		return File{}, fmt.Errorf("read workload %s: %w", name, err)
	}
	return file, nil
}

// Parse decodes the text of a file.
func Parse(text []byte) (File, error) {
	var base struct {
		Preset string `yaml:"preset"`
	}
	if err := yaml.Unmarshal(text, &base); err != nil {
		return File{}, err
	}
	file := File{Workload: Default()}
	if base.Preset != "" {
		w, ok := Preset(base.Preset)
		if !ok {
			return File{}, fmt.Errorf("preset: no %q; there are %s", base.Preset, strings.Join(Presets(), ", "))
		}
		file.Workload = w
	}
	if err := errors.Join(strict(text, &file), checkIntegers(text)); err != nil {
		return File{}, err
	}
	for i := range file.Targets {
		if err := file.Targets[i].Validate(); err != nil {
			return File{}, err
		}
	}
	return file, nil
}

// strict decodes YAML and refuses unknown fields.
func strict(text []byte, into any) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// checkIntegers refuses fractions in integer fields, because the decoder truncates them.
func checkIntegers(text []byte) error {
	var fields map[string]yaml.Node
	if err := yaml.Unmarshal(text, &fields); err != nil {
		return nil // the decoder reports the error
	}
	var faults []error
	for _, name := range []string{"seed", "keys", "topics", "partitions", "publishers", "subscribers", "in-flight"} {
		if n, ok := fields[name]; ok && n.ShortTag() == "!!float" {
			faults = append(faults, fmt.Errorf("%s: want a whole number, have %s", name, n.Value))
		}
	}
	return errors.Join(faults...)
}

// Set changes one field by its YAML name, for a flag.
func (w *Workload) Set(field, value string) error {
	doc := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
		{Kind: yaml.ScalarNode, Tag: "!!str", Value: field},
		{Kind: yaml.ScalarNode, Value: value},
	}}
	text, err := yaml.Marshal(doc)
	if err == nil {
		err = errors.Join(strict(text, w), checkIntegers(text))
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", field, value, err)
	}
	return nil
}
