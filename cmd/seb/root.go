package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/config"
	"github.com/sebbroker/seb/internal/failpoint"
)

// run runs the program and returns the exit code.
func run(ctx context.Context, args []string) int {
	root, began := newRoot()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if !*began {
		// Errors of cobra before a command starts are errors in the command line.
		err = usageError{err}
	}
	if !errors.As(err, &loggedError{}) {
		fmt.Fprintf(root.ErrOrStderr(), "%s: %s\n", cmd.CommandPath(), forPeople(withAddress(cmd.Context(), err)))
	}
	return exitCode(err)
}

// newRoot builds the tree of commands; began reports whether a command was started.
func newRoot() (root *cobra.Command, began *bool) {
	began = new(bool)
	root = &cobra.Command{
		Use:   "seb",
		Short: "An event broker whose only durable state is a bucket",
		Long: `Seb is an event broker whose only durable state is a bucket: a folder on disk or an S3-compatible object store.

  seb serve                       start a broker: records in ./seb-bucket
  echo hello | seb produce demo   send a record
  seb consume demo                read it

Every flag can also be set in the environment as SEB_ and its name: SEB_BUCKET, SEB_HTTP_PORT, SEB_API_KEY ...`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			*began = true
			if cmd.Name() != "serve" { // serve logs them
				for _, w := range unknownVariables(cmd.Root(), os.Environ()) {
					fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", w)
				}
			}
		},
	}
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"broker", "Broker:", []*cobra.Command{newServe(), newHealth(), newStats(), newLatency(), newCost(), newDoctor(), newCheckStore(), newCluster(), newUpgrade(), newTime()}},
		{"records", "Records:", []*cobra.Command{newProduce(), newConsume(), newTopic(), newGroup(), newKey(), newImport(), newExport()}},
		{"events", "Events and triggers:", []*cobra.Command{newEvent(), newTrigger(), newEntity(), newDrip(), newRiemann()}},
		{"access", "Access:", []*cobra.Command{newToken(), newACL(), newQuota(), newAudit(), newSecrets()}},
		{"repair", "Buckets without a broker:", []*cobra.Command{newBackup(), newRestore(), newCopy(), newFsck(), newRecover(), newInspect()}},
		{"measure", "Measurements:", []*cobra.Command{newBench(), newBenchmark(), newBenchmarkRead()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	root.AddCommand(newVersion(), newExitCodes())
	// A custom flag, because the template of cobra's flag links text/template: 10 MB more.
	asked := root.Flags().Bool("version", false, "print the version")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if !*asked {
			return cmd.Help()
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), build())
		return err
	}
	return root, began
}

// unknownVariables returns warnings for environment variables that look like settings of Seb but
// are not, each with the nearest name.
func unknownVariables(root *cobra.Command, environ []string) (warnings []string) {
	known := map[string]bool{}
	var learn func(*cobra.Command)
	learn = func(c *cobra.Command) {
		for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) { known[config.EnvName(f.Name)] = true })
		}
		for _, sub := range c.Commands() {
			learn(sub)
		}
	}
	learn(root)
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "SEB_") || known[name] || ownVariable(name) {
			continue
		}
		w := "$" + name + " is not a setting of Seb"
		if near := driplang.Suggest(name, slices.Collect(maps.Keys(known))); near != "" {
			w += "; did you mean $" + near + "?"
		}
		warnings = append(warnings, w)
	}
	return warnings
}

// ownVariable reports whether seb-bench, or a build with failpoints, reads the variable. Other
// builds do not contain those names.
func ownVariable(name string) bool {
	return strings.HasPrefix(name, "SEB_BENCH_") || failpoint.Enabled && (name == "SEB_FAILPOINTS" || strings.HasPrefix(name, "SEB_HURRY"))
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

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
