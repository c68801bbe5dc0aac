package workload

import (
	"maps"
	"slices"
	"time"
)

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
