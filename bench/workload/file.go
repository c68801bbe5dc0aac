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

// File is what a YAML file says: a workload and who is to do it.
type File struct {
	Workload `yaml:",inline"`
	Preset   string   `yaml:"preset"` // whose workload the file changes
	Targets  []Target `yaml:"targets"`
}

// fileMax is the largest file that is read.
const fileMax = 1 << 20

// Read reads a preset by its name, or else the file of that name. What it does not say is as in Default. Nothing is
// validated yet, because flags may still change it.
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

// Parse reads the text of a file.
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
	if err := errors.Join(strict(text, &file), whole(text)); err != nil {
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

// whole refuses fractions in fields that are whole numbers: the decoder drops what is behind the point.
func whole(text []byte) error {
	var fields map[string]yaml.Node
	if err := yaml.Unmarshal(text, &fields); err != nil {
		return nil // the decoder says what is wrong with it
	}
	var faults []error
	for _, name := range []string{"seed", "keys", "topics", "partitions", "publishers", "subscribers", "in-flight"} {
		if n, ok := fields[name]; ok && n.ShortTag() == "!!float" {
			faults = append(faults, fmt.Errorf("%s: want a whole number, have %s", name, n.Value))
		}
	}
	return errors.Join(faults...)
}

// Set changes one field by its name in YAML, as a flag does.
func (w *Workload) Set(field, value string) error {
	doc := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
		{Kind: yaml.ScalarNode, Tag: "!!str", Value: field},
		{Kind: yaml.ScalarNode, Value: value},
	}}
	text, err := yaml.Marshal(doc)
	if err == nil {
		err = errors.Join(strict(text, w), whole(text))
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", field, value, err)
	}
	return nil
}
