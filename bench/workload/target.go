package workload

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Target is a system to measure.
type Target struct {
	Label   string            `yaml:"label" json:"label"` // in results and pictures; the driver's name if empty
	Driver  string            `yaml:"driver" json:"driver"`
	Address string            `yaml:"address" json:"address,omitempty"` // in the driver's form; its default on loopback if empty
	PID     int               `yaml:"pid" json:"pid,omitempty"`         // of the broker, on this machine
	Data    string            `yaml:"data" json:"data,omitempty"`       // data directory of the broker; the result names its file system
	Start   string            `yaml:"start" json:"start,omitempty"`     // command that started the broker, for the result
	Options map[string]string `yaml:"options" json:"options,omitempty"` // specific to the driver
}

// ParseTarget parses a target in the form of flags: the driver's name, then label=, address=, pid=,
// data= and the driver's options, separated by spaces.
func ParseTarget(s string) (Target, error) {
	words := strings.Fields(s)
	if len(words) == 0 || strings.Contains(words[0], "=") {
		return Target{}, fmt.Errorf("target %q: want a driver's name first, as in %q", s, "kafka address=127.0.0.1:9092")
	}
	t := Target{Driver: words[0]}
	for _, word := range words[1:] {
		name, value, ok := strings.Cut(word, "=")
		switch {
		case !ok || name == "":
			return Target{}, fmt.Errorf("target %q: %q: want name=value", s, word)
		case name == "label":
			t.Label = value
		case name == "address":
			t.Address = value
		case name == "data":
			t.Data = value
		case name == "pid":
			pid, err := strconv.Atoi(value)
			if err != nil {
				return Target{}, fmt.Errorf("target %q: pid: want a number, have %q", s, value)
			}
			t.PID = pid
		default:
			if t.Options == nil {
				t.Options = map[string]string{}
			}
			t.Options[name] = value
		}
	}
	return t, t.Validate()
}

// Validate returns an error that names the first invalid field.
func (t *Target) Validate() error {
	if t.Driver == "" {
		return fmt.Errorf("targets: %q has no driver", t.Label)
	}
	if t.PID < 0 {
		return fmt.Errorf("targets: %s: pid: want a process, have %d", t.Name(), t.PID)
	}
	return nil
}

// Name returns the target's name in results.
func (t *Target) Name() string {
	if t.Label != "" {
		return t.Label
	}
	return t.Driver
}

// UnmarshalYAML decodes a mapping, or a target in the form of flags.
func (t *Target) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		target, err := ParseTarget(n.Value)
		*t = target
		return err
	}
	type plain Target
	// Only a separate decoder can refuse unknown fields here.
	text, err := yaml.Marshal(n)
	if err != nil {
		return err
	}
	return strict(text, (*plain)(t))
}

// secrets are parts of the names of options whose values are not written to results.
var secrets = []string{"key", "token", "password", "secret", "user"}

// Public returns the target without secrets: it hides the values of options that may be secret, and
// removes the credentials of the address.
func (t Target) Public() Target {
	options := make(map[string]string, len(t.Options))
	for name, value := range t.Options {
		for _, s := range secrets {
			if strings.Contains(strings.ToLower(name), s) {
				value = "(hidden)"
			}
		}
		options[name] = value
	}
	t.Options = options
	if scheme, rest, ok := strings.Cut(t.Address, "://"); ok {
		authority, path, slash := strings.Cut(rest, "/")
		if at := strings.LastIndexByte(authority, '@'); at >= 0 {
			t.Address = scheme + "://" + authority[at+1:]
			if slash {
				t.Address += "/" + path
			}
		}
	}
	return t
}
