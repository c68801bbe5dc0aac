package workload_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/bench/workload"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

const file = `
name: mine
preset: article-d
rate: 2500.5
size: 256B:90,1KiB..4KiB:10
duration: 20s
key-skew: 1.1
keys: 100
faults:
  - pause at=5s for=1s
  - restart at=7s run=systemctl restart broker at=x
targets:
  - redis address=127.0.0.1:26379
  - driver: kafka
    label: kafka fsync
    pid: 17
    options: {acks: all, api-key: abc}
`

func TestParse(t *testing.T) {
	f := must.Get(workload.Parse([]byte(file)))(t)
	if f.Name != "mine" || f.Rate != 2_500_500_000 || f.Duration != workload.Duration(20*time.Second) || f.Publishers != 25 || f.Keys != 100 {
		t.Errorf("%+v", f.Workload)
	}
	if f.Size.Min() != 256 || f.Size.Max() != 4096 || f.Size.String() != "256B:90,1KiB..4KiB:10" {
		t.Errorf("size %v", f.Size)
	}
	if len(f.Faults) != 2 || f.Faults[0].For != time.Second || f.Faults[1].Run != "systemctl restart broker at=x" {
		t.Errorf("faults %v", f.Faults)
	}
	if len(f.Targets) != 2 || f.Targets[0].Address != "127.0.0.1:26379" || f.Targets[1].Options["acks"] != "all" || f.Targets[1].Name() != "kafka fsync" {
		t.Errorf("targets %+v", f.Targets)
	}
	check.NoError(t, f.Validate())
}

func TestDocumentedFile(t *testing.T) {
	text := must.Get(os.ReadFile("../README.md"))(t)
	_, after, _ := strings.Cut(string(text), "```yaml\n")
	example, _, ok := strings.Cut(after, "```")
	if !ok {
		t.Fatal("the README has no example")
	}
	f, err := workload.Parse([]byte(example))
	if err != nil || f.Validate() != nil || len(f.Targets) != 2 || len(f.Faults) != 2 || f.Targets[1].Options["flush-messages"] != "1" {
		t.Errorf("%+v, %v, %v", f, err, f.Validate())
	}
}

func TestParseRefuses(t *testing.T) {
	for text, word := range map[string]string{
		"rate: fast":                             "messages a second",
		"rat: 3":                                 "rat",
		"preset: article-z":                      "article-a",
		"size: 3GB":                              "3GB",
		"size: 4KiB..1KiB":                       "more than",
		"size: 1KiB:0":                           "weight",
		"duration: 30":                           "30s",
		"faults: [explode at=1s]":                "explode",
		"faults: [pause at=1s]":                  "for=",
		"faults: [slow at=1s for=1s]":            "delay=",
		"faults: [command at=1s]":                "run=",
		"faults: [pause at=1s for=1s run=x]":     "run=",
		"faults: [pause at=1s for=-1s]":          "for",
		"faults: [pause when=1s for=1s]":         "when",
		"targets: [{label: x}]":                  "driver",
		"targets: [{driver: x, adress: y}]":      "adress",
		"targets: ['address=x']":                 "driver",
		"targets: ['kafka pid=x']":               "pid",
		"topics: [1":                             "",
		"name: " + strings.Repeat("x", 1) + "\n": "none",
	} {
		f, err := workload.Parse([]byte(text))
		if word == "none" {
			if err != nil || f.Name != "x" {
				t.Errorf("%q: error %v", text, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: error %v, want one about %q", text, err, word)
		}
	}
}

func TestValidate(t *testing.T) {
	w := workload.Default()
	must.NoError(t, w.Validate())
	for field, value := range map[string]string{
		"arrivals": "bursts", "loop": "half", "duration": "0s", "warmup": "-1s", "timeout": "0s", "cooldown": "1000h", "size": "47B",
		"compressible": "1.5", "keys": "-1", "key-skew": "0.5", "topics": "2", "partitions": "0", "publishers": "0", "subscribers": "-1",
		"in-flight": "-1", "lag-limit": "0",
	} {
		w := workload.Default()
		check.NoErrorf(t, w.Set(field, value), "%s", field)
		if err := w.Validate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s %s: error %v", field, value, err)
		}
	}
	t.Run("every publisher needs a message in flight", func(t *testing.T) {
		w := workload.Default()
		w.Publishers, w.InFlight = 10, 9
		check.ErrorContains(t, w.Validate(), "in-flight")
	})
	t.Run("names every fault", func(t *testing.T) {
		w := workload.Default()
		w.Rate, w.Publishers, w.Loop = 0, 0, ""
		err := w.Validate()
		for _, field := range []string{"rate", "publishers", "loop"} {
			if err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("error %v does not name %s", err, field)
			}
		}
	})
	t.Run("bounds the connections and what is verified", func(t *testing.T) {
		w := workload.Default()
		w.Publishers, w.Topics, w.Subscribers = 200, 200, 100
		check.ErrorContains(t, w.Validate(), "10000 connections")
		w.Publishers, w.Topics, w.Subscribers = 10_000, 1, 1000
		check.ErrorContains(t, w.Validate(), "pairs")
	})
	t.Run("bounds the memory of what is in flight", func(t *testing.T) {
		w := workload.Default()
		w.Size, w.InFlight = workload.FixedSize(1<<20), 10_000
		check.ErrorContains(t, w.Validate(), "in-flight")
		w.InFlight = 0
		if err := w.Validate(); err != nil || w.Window() != 256 {
			t.Errorf("%d in flight, error %v", w.Window(), err)
		}
	})
}

func TestSet(t *testing.T) {
	w := workload.Default()
	for field, value := range map[string]string{"rate": "20000", "size": "5KiB", "shared": "true", "name": "123", "compressible": "0.5"} {
		must.NoError(t, w.Set(field, value))
	}
	if w.Rate != 20_000*workload.PerSecond || w.Size.Max() != 5120 || !w.Shared || w.Name != "123" || w.Compressible != 0.5 {
		t.Errorf("%+v", w)
	}
	for field, value := range map[string]string{"rate": "x", "nothing": "1", "shared": "perhaps", "keys": "many", "publishers": "1.5"} {
		if err := w.Set(field, value); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s=%s: error %v", field, value, err)
		}
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.yaml")
	must.NoError(t, os.WriteFile(path, []byte(file), 0o600))
	if f, err := workload.Read(path); err != nil || f.Name != "mine" {
		t.Errorf("error %v", err)
	}
	for _, name := range workload.Presets() {
		f, err := workload.Read(name)
		if err != nil || f.Name != name || f.Validate() != nil {
			t.Errorf("%s: %v, %v", name, err, f.Validate())
		}
	}
	check.ErrorContains(t, check.Err(workload.Read("article-x")), "article-e")
	check.Error(t, check.Err(workload.Read(path+".none")), "a file that is not there is read")
}

func TestSizes(t *testing.T) {
	z := must.Get(workload.ParseSizes("100:3,200..300:1"))(t)
	rng := rand.New(rand.NewPCG(1, 1))
	small, sum := 0, 0
	const draws = 100_000
	for range draws {
		n := z.Draw(rng)
		sum += n
		if n == 100 {
			small++
		} else if n < 200 || n > 300 {
			t.Fatalf("drew %d", n)
		}
	}
	if share := float64(small) / draws; share < 0.74 || share > 0.76 {
		t.Errorf("%.3f of the messages are small, want 0.75", share)
	}
	if mean := float64(sum) / draws; mean < z.Mean()-2 || mean > z.Mean()+2 || z.Mean() != 137.5 {
		t.Errorf("mean %.1f, want %.1f", mean, z.Mean())
	}
}

func TestPublic(t *testing.T) {
	target := workload.Target{Address: "amqp://guest:pw@host:1/a@b", Options: map[string]string{"api-key": "abc", "acks": "1"}}
	p := target.Public()
	if p.Address != "amqp://host:1/a@b" || p.Options["api-key"] != "(hidden)" || p.Options["acks"] != "1" || target.Options["api-key"] != "abc" {
		t.Errorf("%+v of %+v", p, target)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(file)
	f.Add("size: 1..2:3,4")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := workload.Parse([]byte(text))
		if err != nil {
			return
		}
		if file.Validate() == nil && file.Window() < 1 {
			t.Errorf("window %d", file.Window())
		}
	})
}

func FuzzText(f *testing.F) {
	f.Add("pause at=1s for=2s", "256B:9,1KiB..2KiB:1")
	f.Fuzz(func(t *testing.T, fault, sizes string) {
		if a, err := workload.ParseFault(fault); err == nil {
			if b, err := workload.ParseFault(a.String()); err != nil || a != b {
				t.Errorf("%q becomes %q: %+v, %+v, %v", fault, a.String(), a, b, err)
			}
		}
		if a, err := workload.ParseSizes(sizes); err == nil {
			if b, err := workload.ParseSizes(a.String()); err != nil || a.String() != b.String() {
				t.Errorf("%q becomes %q, error %v", sizes, a, err)
			}
		}
	})
}
