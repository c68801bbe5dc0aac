package result

import (
	"runtime"
	"runtime/debug"
)

// Tool is the program that made the measurement.
type Tool struct {
	Version string            `json:"version"`
	Commit  string            `json:"commit"`
	Dirty   bool              `json:"dirty"` // built from a tree with uncommitted changes
	Go      string            `json:"go"`
	Modules map[string]string `json:"modules,omitempty"` // path and version of every module in the build
}

// ThisTool describes the running program; version is the version set at build time, or "".
func ThisTool(version string) Tool {
	t := Tool{Version: version, Commit: "unknown", Go: runtime.Version(), Modules: map[string]string{}}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return t
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			t.Commit = s.Value
		case "vcs.modified":
			t.Dirty = s.Value == "true"
		}
	}
	for _, m := range info.Deps {
		t.Modules[m.Path] = m.Version
		if m.Replace != nil {
			t.Modules[m.Path] = m.Replace.Version
		}
	}
	if t.Version == "" {
		t.Version = info.Main.Version
	}
	return t
}
