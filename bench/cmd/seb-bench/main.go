// Command seb-bench measures the latency of brokers. It sends messages by a fixed schedule, from
// many publishers to many subscribers, and records the time of each from when it should have been
// sent.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	_ "github.com/sebbroker/seb/bench/drivers" // they register themselves
	"github.com/sebbroker/seb/bench/peers"
	"github.com/sebbroker/seb/internal/engine/base/machine"
	"github.com/sebbroker/seb/internal/operate/quiet"
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
	machine.AddProcessor()
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

func newPeers() *cobra.Command {
	var o peers.Options
	cmd := &cobra.Command{
		Use:   "peers",
		Short: "Start and stop brokers on this machine",
		Long: `Unpacks brokers into a cache folder, starts them on free loopback ports with their own data folders,
and prints the --target that reaches each of them. Nothing is installed system-wide.`,
	}
	cmd.PersistentFlags().StringVar(&o.Repository, "repository", "", "folder of Seb's source (default: the nearest one above)")
	cmd.PersistentFlags().StringVar(&o.Cache, "cache", "", "folder of the programs (default: bench/.cache in the repository)")
	cmd.PersistentFlags().StringVar(&o.Data, "data", "", "folder of data, logs and the list of running brokers (default: run in the cache)")
	cmd.AddCommand(newPeersUp(&o), newPeersDown(&o), newPeersList(&o))
	return cmd
}

func newPeersUp(o *peers.Options) *cobra.Command {
	var help strings.Builder
	w := tabwriter.NewWriter(&help, 0, 0, 2, ' ', 0)
	for _, k := range peers.Kinds() {
		_, _ = fmt.Fprintf(w, "  %s\t%s\n", k.Name, k.Doc) // writing to memory cannot fail
	}
	_ = w.Flush()
	return &cobra.Command{
		Use: "up NAME...", Short: "Install and start brokers that are not running", Args: cobra.MinimumNArgs(1),
		Long:    "Starts peers, one after the other. A name without its grade stands for all grades.\n\n" + help.String(),
		Example: "  seb-bench peers up redis-memory kafka",
		RunE: func(cmd *cobra.Command, names []string) error {
			o.Progress = cmd.ErrOrStderr()
			list, err := peers.Up(cmd.Context(), *o, names...)
			printPeers(cmd.OutOrStdout(), list)
			return err
		},
	}
}

func newPeersDown(o *peers.Options) *cobra.Command {
	return &cobra.Command{
		Use: "down [NAME...]", Short: "Stop the named brokers, or all, and remove their data",
		RunE: func(cmd *cobra.Command, names []string) error {
			o.Progress = cmd.ErrOrStderr()
			return peers.Down(context.WithoutCancel(cmd.Context()), *o, names...)
		},
	}
}

func newPeersList(o *peers.Options) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List running brokers and their --target arguments", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := peers.Running(*o)
			printPeers(cmd.OutOrStdout(), list)
			return err
		},
	}
}

// printPeers prints the flags for measuring peers.
func printPeers(w io.Writer, list []peers.Peer) {
	for i := range list {
		for _, target := range list[i].Targets {
			words := []string{target.Driver, "address=" + target.Address, fmt.Sprintf("pid=%d", list[i].PID), "data=" + list[i].Dir}
			for _, name := range slices.Sorted(maps.Keys(target.Options)) {
				words = append(words, name+"="+target.Options[name])
			}
			// Running knows them too.
			_, _ = fmt.Fprintf(w, "--target %q\n", strings.Join(words, " "))
		}
	}
}
