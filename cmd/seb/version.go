package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker (Makefile); a plain `go build` or `go install` leaves it empty.
var version string

// buildInfo describes the build.
type buildInfo struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Dirty   bool   `json:"dirty"` // built from a modified tree
	Go      string `json:"go"`
}

func (b buildInfo) String() string {
	commit := b.Commit
	if b.Dirty {
		commit += " with changes"
	}
	return fmt.Sprintf("seb %s (commit %s, %s, %s/%s)", b.Version, commit, b.Go, runtime.GOOS, runtime.GOARCH)
}

func build() buildInfo {
	b := buildInfo{Version: version, Commit: "unknown", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.modified":
				b.Dirty = s.Value == "true"
			}
		}
		b.Version = cmp.Or(b.Version, info.Main.Version)
	}
	b.Version = cmp.Or(b.Version, "unknown")
	return b
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(build())
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), build())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
