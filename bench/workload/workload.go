// Package workload defines the work of a run: messages, sizes, rate, publishers, subscribers,
// duration and faults. It comes from a YAML file, flags or a preset.
package workload

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Workload is the work that every target of a comparison does.
type Workload struct {
	Name string `yaml:"name" json:"name"`

	// The schedule.
	Rate     Rate     `yaml:"rate" json:"rate"`         // messages per second, of all publishers together
	Arrivals string   `yaml:"arrivals" json:"arrivals"` // Fixed or Poisson
	Seed     uint64   `yaml:"seed" json:"seed"`         // of arrivals, sizes, keys and fillers
	Loop     string   `yaml:"loop" json:"loop"`         // Open or Closed
	Warmup   Duration `yaml:"warmup" json:"warmup"`     // messages due in it are sent and not measured
	Duration Duration `yaml:"duration" json:"duration"` // messages due in it are measured
	Cooldown Duration `yaml:"cooldown" json:"cooldown"` // messages due in it keep the load up, and are not measured
	Timeout  Duration `yaml:"timeout" json:"timeout"`   // time after the last message in which the rest may arrive

	// The messages.
	Size         Sizes   `yaml:"size" json:"size"`
	Compressible float64 `yaml:"compressible" json:"compressible"` // fraction of a message that repeats, 0 to 1
	Keys         int     `yaml:"keys" json:"keys"`                 // number of different keys; 0: messages have no key
	KeySkew      float64 `yaml:"key-skew" json:"key_skew"`         // exponent of a Zipf distribution of keys, above 1; 0: uniform

	// The publishers and subscribers.
	Topics      int  `yaml:"topics" json:"topics"`           // publishers use them in turn
	Partitions  int  `yaml:"partitions" json:"partitions"`   // of each topic
	Publishers  int  `yaml:"publishers" json:"publishers"`   // connections
	Subscribers int  `yaml:"subscribers" json:"subscribers"` // connections of each topic; 0: no receivers
	Shared      bool `yaml:"shared" json:"shared"`           // subscribers of a topic share its messages instead of each receiving all
	Batch       int  `yaml:"batch" json:"batch,omitempty"`   // messages that a publisher sends together; 0 or 1: each message alone
	InFlight    int  `yaml:"in-flight" json:"in_flight"`     // messages without an acknowledgement, of all publishers together

	LagLimit float64 `yaml:"lag-limit" json:"lag_limit"` // largest lag of the generator itself, in percent of the measured p99
	Faults   []Fault `yaml:"faults" json:"faults,omitempty"`
}

// The values of Arrivals and Loop.
const (
	Fixed   = "fixed"   // at equal distances
	Poisson = "poisson" // as from many independent senders
	Open    = "open"    // messages are due independently of earlier acknowledgements
	Closed  = "closed"  // the next batch is due after the acknowledgement of the previous one: demonstrates coordinated omission, or measures throughput
)

// Default is the workload that files, presets and flags change.
func Default() Workload {
	return Workload{
		Name: "custom", Rate: 1000 * PerSecond, Arrivals: Fixed, Seed: 1, Loop: Open,
		Warmup: Duration(5 * time.Second), Duration: Duration(30 * time.Second), Timeout: Duration(10 * time.Second),
		Size: FixedSize(1024), Topics: 1, Partitions: 1, Publishers: 1, Subscribers: 1, InFlight: 0, LagLimit: 10,
	}
}

// The limits of a workload.
const (
	connectionsMax = 10_000
	pairsMax       = 1_000_000 // of a publisher and a subscriber that receives all
	keysMax        = 10_000_000
	inFlightMax    = 10_000_000
	lengthMax      = 7 * 24 * time.Hour
	messagesMax    = 1 << 40
	batchMax       = 1_000_000
	memoryMax      = 4 << 30 // of the messages in flight
)

// InFlightBytes is the default limit of the bytes in flight.
const InFlightBytes = 256 << 20

// inFlightDefault is the default limit of the messages in flight.
const inFlightDefault = 20_000

// Window returns the most messages in flight for each publisher: InFlight divided by the
// publishers. The default of InFlight is as many messages as fit 256 MiB, at most 20,000.
func (w *Workload) Window() int {
	n := w.InFlight
	n = cmp.Or(n, min(inFlightDefault, InFlightBytes/max(w.Size.Max(), 1)))
	if w.Loop == Closed {
		return w.Together()
	}
	return max(1, n/max(w.Publishers, 1))
}

// Together returns the number of messages that a publisher sends together, at least 1.
func (w *Workload) Together() int { return max(1, w.Batch) }

// Length returns the total time in which messages are due.
func (w *Workload) Length() time.Duration {
	return time.Duration(w.Warmup + w.Duration + w.Cooldown)
}

// Validate returns an error that names every invalid field with its limit and value.
func (w *Workload) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(w.Rate > 0 && w.Rate <= RateMax, "rate: want messages a second, at most %v, have %v", RateMax, w.Rate)
	check(w.Arrivals == Fixed || w.Arrivals == Poisson, "arrivals: want %s or %s, have %q", Fixed, Poisson, w.Arrivals)
	check(w.Loop == Open || w.Loop == Closed, "loop: want %s or %s, have %q", Open, Closed, w.Loop)
	check(w.Duration > 0, "duration: want more than 0, have %v", w.Duration)
	check(w.Warmup >= 0, "warmup: want 0 or more, have %v", w.Warmup)
	check(w.Cooldown >= 0, "cooldown: want 0 or more, have %v", w.Cooldown)
	check(w.Timeout > 0, "timeout: want more than 0, have %v", w.Timeout)
	for _, d := range []Duration{w.Duration, w.Warmup, w.Cooldown, w.Timeout} {
		check(d <= Duration(lengthMax), "warmup, duration, cooldown, timeout: want at most %v, have %v", lengthMax, d)
	}
	check(w.Size.Min() >= MessageHeaderBytes, "size: want at least %d bytes, which the header takes, have %v", MessageHeaderBytes, w.Size)
	check(w.Compressible >= 0 && w.Compressible <= 1, "compressible: want 0 to 1, have %v", w.Compressible)
	check(w.Keys >= 0 && w.Keys <= keysMax, "keys: want 0 to %d, have %d", keysMax, w.Keys)
	check(w.KeySkew == 0 || w.KeySkew > 1 && w.KeySkew <= 100, "key-skew: want 0, or more than 1 and at most 100, have %v", w.KeySkew)
	faults = append(faults, w.validateConnections()...)
	check(w.LagLimit > 0 && w.LagLimit <= 100, "lag-limit: want above 0 and at most 100 percent, have %v", w.LagLimit)
	if len(faults) == 0 {
		count := w.Rate.Float() * w.Length().Seconds()
		check(count <= messagesMax, "rate, duration: %.0f messages in all, the limit is %d", count, messagesMax)
		memory := float64(w.Window()) * float64(w.Publishers) * float64(w.Size.Max())
		check(w.Window() >= w.Together(), "in-flight, batch: %d messages in flight for each publisher do not hold a batch of %d", w.Window(), w.Batch)
		check(memory <= memoryMax, "in-flight, size: %.0f bytes of messages in flight, the limit is %d", memory, memoryMax)
	}
	for i := range w.Faults {
		if err := w.Faults[i].validate(); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

func (w *Workload) validateConnections() []error {
	var faults []error
	for _, f := range []struct {
		name             string
		value, low, high int
	}{
		{"topics", w.Topics, 1, connectionsMax},
		{"partitions", w.Partitions, 1, connectionsMax},
		{"publishers", w.Publishers, 1, connectionsMax},
		{"subscribers", w.Subscribers, 0, connectionsMax},
		{"in-flight", w.InFlight, 0, inFlightMax},
		{"batch", w.Batch, 0, batchMax},
	} {
		if f.value < f.low || f.value > f.high {
			faults = append(faults, fmt.Errorf("%s: want %d to %d, have %d", f.name, f.low, f.high, f.value))
		}
	}
	if w.Topics > w.Publishers {
		faults = append(faults, fmt.Errorf("topics: want at most as many as publishers (%d), have %d", w.Publishers, w.Topics))
	}
	if w.InFlight > 0 && w.InFlight < w.Publishers {
		faults = append(faults, fmt.Errorf("in-flight: want 0, or at least one for each of %d publishers, have %d", w.Publishers, w.InFlight))
	}
	if n := w.Topics * w.Subscribers; n > connectionsMax {
		faults = append(faults, fmt.Errorf("topics, subscribers: want at most %d connections, have %d", connectionsMax, n))
	}
	if n := w.Publishers * w.Subscribers; !w.Shared && n > pairsMax {
		faults = append(faults, fmt.Errorf("publishers, subscribers: want at most %d pairs to verify, have %d", pairsMax, n))
	}
	return faults
}

// Duration is a time.Duration with a text form as in 30s.
type Duration time.Duration

// String returns the text form, as in 30s.
func (d Duration) String() string { return time.Duration(d).String() }

// Seconds returns the duration in seconds.
func (d Duration) Seconds() float64 { return time.Duration(d).Seconds() }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q: want a duration, such as 30s", text)
	}
	*d = Duration(v)
	return nil
}

// presets are the five runs of the article "Benchmarking Message Queue Latency" (Tyler Treat,
// 2016). A request there, a message and its echo, is one message here. Each of its connections is a
// publisher and a subscriber. Its sizes are read as powers of two.
var presets = map[string]func(*Workload){
	"article-a": func(w *Workload) { w.Rate, w.Size = 3000*PerSecond, FixedSize(256) },
	"article-b": func(w *Workload) { w.Rate, w.Size = 3000*PerSecond, FixedSize(1<<10) },
	"article-c": func(w *Workload) { w.Rate, w.Size = 2000*PerSecond, FixedSize(5<<10) },
	"article-d": func(w *Workload) {
		w.Rate, w.Size = 20_000*PerSecond, FixedSize(1<<10)
		w.Publishers, w.Topics = 25, 25
	},
	"article-e": func(w *Workload) { w.Rate, w.Size = 100*PerSecond, FixedSize(1<<20) },
}

// Preset returns a workload by its name.
func Preset(name string) (Workload, bool) {
	change, ok := presets[name]
	if !ok {
		return Workload{}, false
	}
	w := Default()
	w.Name = name
	w.Duration = Duration(30 * time.Second)
	change(&w)
	return w, true
}

// Presets returns the names that Preset accepts.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

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
	for _, name := range []string{"seed", "keys", "topics", "partitions", "publishers", "subscribers", "in-flight", "batch"} {
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
