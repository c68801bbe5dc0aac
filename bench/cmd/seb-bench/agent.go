package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/bench/agent"
	"github.com/sebbroker/seb/bench/load"
	"github.com/sebbroker/seb/bench/result"
)

// agentListen is the default address of an agent.
const agentListen = "127.0.0.1:51320"

func newAgent() *cobra.Command {
	var listen, tokenFile string
	cmd := &cobra.Command{
		Use:   "agent --token-file FILE",
		Short: "Generate load for a coordinator on another machine: seb-bench run --agents",
		Long: `Waits for a coordinator (run, sweep and max with --agents) and does its share of each run. An agent
serves one coordinator at a time. Both sides need the same token of at least 16 bytes, in a file or
in ` + agent.TokenVariable + `. The token is never sent: the connection uses TLS, and both sides prove over it
that they have the token. Anyone with the token can put load on everything this machine can reach.`,
		Example: `  head -c 32 /dev/urandom | base64 > token
  seb-bench agent --listen 10.0.0.5:51320 --token-file token`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			token, err := agent.ReadToken(tokenFile)
			if err != nil {
				return err
			}
			var mu sync.Mutex // guards the output
			a, err := agent.New(agent.Options{Token: token, Tool: result.ThisTool(version), Say: func(line string) {
				mu.Lock()
				defer mu.Unlock()
				fmt.Fprintln(cmd.OutOrStdout(), time.Now().UTC().Format(time.RFC3339), line)
			}})
			if err != nil {
				return err
			}
			l, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", listen)
			if err != nil {
				return err
			}
			mu.Lock()
			fmt.Fprintln(cmd.OutOrStdout(), "listening on", l.Addr())
			mu.Unlock()
			return a.Serve(cmd.Context(), l)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", agentListen, "listen address host:port; port 0 selects a free one")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "token file (default: environment variable"+agent.TokenVariable+")")
	return cmd
}

// together is the state of a session with agents.
type together struct {
	agents    []string
	tokenFile string
	team      *agent.Team // nil: this process generates the load
}

// flags adds the flags of agents to cmd.
func (g *together) flags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&g.agents, "agents", nil, "host:port of each load machine (seb-bench agent), separated by commas; they share the workload's connections and rate")
	cmd.Flags().StringVar(&g.tokenFile, "token-file", "", "token file of the agents (default: environment variable"+agent.TokenVariable+")")
}

// open makes the team, which connects at the first run.
func (g *together) open(cmd *cobra.Command) error {
	if len(g.agents) == 0 {
		if g.tokenFile != "" {
			return fmt.Errorf("--token-file: requires --agents")
		}
		return nil
	}
	token, err := agent.ReadToken(g.tokenFile)
	if err != nil {
		return err
	}
	g.team, err = agent.NewTeam(agent.TeamOptions{
		Agents: g.agents, Token: token, Tool: result.ThisTool(version),
		Say: func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) },
	})
	if err != nil {
		return fmt.Errorf("--%w", err)
	}
	return nil
}

// close disconnects the agents.
func (g *together) close() {
	if g.team != nil {
		g.team.Close()
	}
}

// run is load.Run with the team.
func (g *together) run(ctx context.Context, o load.Options) (*result.Run, error) {
	return g.team.Do(ctx, agent.Run{Workload: o.Workload, Target: o.Target, Spin: o.Spin, Floor: o.Floor, Progress: o.Progress})
}
