package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
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
		fmt.Fprintf(root.ErrOrStderr(), "%s: %s\n", cmd.CommandPath(), oneLine(err))
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
		PersistentPreRun: func(*cobra.Command, []string) {
			*began = true
		},
	}
	root.AddCommand(
		newServe(), newProduce(), newConsume(), newTopic(), newGroup(), newKey(), newEvent(), newTrigger(), newEntity(), newDrip(), newInspect(), newCheckStore(),
		newFsck(), newRecover(), newUpgrade(), newTime(), newImport(), newExport(),
		newBench(), newBenchmark(), newBenchmarkRead(), newVersion(), newExitCodes(),
	)
	return root, began
}

// isTerminal says whether a person looks at w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
