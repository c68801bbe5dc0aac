package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/bench/peers"
)

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
