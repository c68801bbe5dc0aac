package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/sebbroker/seb/internal/config"
	"github.com/sebbroker/seb/internal/failpoint"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// run is the whole program: it returns the exit code.
func run(ctx context.Context, args []string) int {
	root, began := newRoot()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if !*began {
		// Whatever cobra finds wrong before a command runs is in the command line.
		err = usageError{err}
	}
	if !errors.As(err, &loggedError{}) {
		fmt.Fprintf(root.ErrOrStderr(), "%s: %s\n", cmd.CommandPath(), forPeople(withAddress(cmd.Context(), err)))
	}
	return exitCode(err)
}

// newRoot builds the tree of commands; began tells whether one of them was started.
func newRoot() (root *cobra.Command, began *bool) {
	began = new(bool)
	root = &cobra.Command{
		Use:   "seb",
		Short: "An event broker whose only durable state is a bucket",
		Long: `Seb is an event broker whose only durable state is a bucket: a folder on disk or an S3-compatible object store.

  seb serve                       start a broker: records in ./seb-bucket
  echo hello | seb produce demo   send a record
  seb consume demo                read it

Every flag can also be given in the environment as SEB_ and its name: SEB_BUCKET, SEB_HTTP_PORT, SEB_API_KEY ...`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			*began = true
			if cmd.Name() != "serve" { // which logs them
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
		{"broker", "Broker:", []*cobra.Command{newServe(), newHealth(), newCheckStore(), newUpgrade(), newTime()}},
		{"records", "Records:", []*cobra.Command{newProduce(), newConsume(), newTopic(), newGroup(), newKey(), newImport(), newExport()}},
		{"events", "Events and triggers:", []*cobra.Command{newEvent(), newTrigger(), newEntity(), newDrip()}},
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
	// Not cobra's own flag, whose template links text/template: 10 MB more.
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

// unknownVariables says which variables of the environment look like settings of Seb and are none, each with the nearest name.
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
		w := "$" + name + " is no setting of Seb"
		if near := nearest(name, slices.Sorted(maps.Keys(known))); near != "" {
			w += "; did you mean $" + near + "?"
		}
		warnings = append(warnings, w)
	}
	return warnings
}

// ownVariable says whether a variable is read by seb-bench, or by a build with failpoints. Other builds have no names of those in them.
func ownVariable(name string) bool {
	return strings.HasPrefix(name, "SEB_BENCH_") || failpoint.Enabled && (name == "SEB_FAILPOINTS" || strings.HasPrefix(name, "SEB_HURRY"))
}

// nearest is the name with the fewest edits, at most three; "" if all are farther.
func nearest(name string, names []string) (near string) {
	least := 4
	for _, n := range names {
		if d := edits(name, n); d < least {
			near, least = n, d
		}
	}
	return near
}

// edits is the least number of bytes to insert, delete or replace that makes b of a.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// isTerminal says whether a person is at the other end of a stream.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
