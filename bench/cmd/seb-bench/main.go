// Command seb-bench measures the latency of brokers. It sends messages by a fixed schedule, from
// many publishers to many subscribers, and records the time of each from when it should have been
// sent.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	_ "github.com/sebbroker/seb/bench/drivers" // they register themselves
	"github.com/sebbroker/seb/internal/quiet"
)

// version is set by the linker; a plain `go build` leaves it empty.
var version string

// The exit codes.
const (
	exitOK      = 0
	exitError   = 1
	exitUsage   = 2
	exitHolds   = 3 // a condition of compare holds
	exitStopped = 130
)

func main() {
	quiet.Restore()
	if os.Getenv("GOMAXPROCS") == "" {
		// One more processor than cores: a median of 0.83 instead of 0.97 ms at 3,000 messages/s on two
		// cores (docs/reports/latency.md).
		runtime.GOMAXPROCS(runtime.NumCPU() + 1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// A second signal ends the program immediately.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:]))
}

// run is the whole program: it returns the exit code.
func run(ctx context.Context, args []string) int {
	root, began := newRoot()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintf(root.ErrOrStderr(), "%s: interrupted\n", cmd.CommandPath())
		return exitStopped
	}
	fmt.Fprintf(root.ErrOrStderr(), "%s: %s\n", cmd.CommandPath(), strings.ReplaceAll(err.Error(), "\n", "; "))
	switch {
	case !*began:
		return exitUsage
	case errors.Is(err, errConditions):
		return exitHolds
	}
	return exitError
}

// newRoot builds the tree of commands; began tells whether a command was started.
func newRoot() (root *cobra.Command, began *bool) {
	began = new(bool)
	root = &cobra.Command{
		Use:   "seb-bench",
		Short: "Measure the latency of brokers",
		Long: `Sends messages according to a schedule that is computed in advance and that a stall of the broker does
not shift, verifies every message that arrives, and records how long it took from the time at which
it should have been sent.

  seb-bench run article-b --target seb --target "kafka address=127.0.0.1:9092"
  seb-bench run my.yaml --repeat 5 --out my.json
  seb-bench max --slo p99=50ms --target nats
  seb-bench sweep --rates 1000,2000,4000 --sizes 256B,1KiB --target seb`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(*cobra.Command, []string) {
			*began = true
		},
	}
	root.AddCommand(newRun(), newSweep(), newMax(), newDrivers(), newPeers(), newReport(), newCompare(), newCampaign(), newAgent(), newVersion())
	return root, began
}
