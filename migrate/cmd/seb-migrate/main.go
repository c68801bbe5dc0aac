// Command seb-migrate compares two clusters that speak the Kafka protocol, of which Seb is one.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the linker; a plain `go build` leaves it empty.
var version = "unknown"

// The exit codes.
const (
	exitEqual     = 0
	exitDifferent = 1
	exitError     = 2 // also for a wrong command line
	exitStopped   = 130
)

func main() {
	// Most of the heap is garbage of answers: with the usual percentage 2 million records need 274 MiB, with
	// this one 207.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// A second signal ends the program at once, because the default handling is restored.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// errDifferent says that the clusters differ. The report has been printed.
var errDifferent = errors.New("the clusters differ")

// run runs the program and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:   "seb-migrate",
		Short: "Compare two clusters that speak the Kafka protocol",
		Long: `Compares two clusters that speak the Kafka protocol, such as Seb and Kafka. "seb migrate" runs this program.

Exit codes: 0 equal, 1 different, 2 the clusters could not be compared, 130 interrupted.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(newCheck(), &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "seb-migrate", version)
			return err
		},
	})
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return exitEqual
	case errors.Is(err, errDifferent):
		return exitDifferent
	case ctx.Err() != nil:
		return exitStopped
	}
	fmt.Fprintf(stderr, "%s: %v\n", cmd.CommandPath(), err)
	return exitError
}
