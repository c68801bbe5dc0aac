package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sebbroker/seb/bench/agent"
	"github.com/sebbroker/seb/bench/load"
	"github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/bench/workload"
)

// session is one call of a measuring command: the common parts.
type session struct {
	targets []string
	faults  []string
	repeat  int
	out     string
	hdr     string
	floor   time.Duration
	spin    time.Duration
	quiet   bool
	strict  bool

	together together // with agents

	file  workload.File
	clock load.Clock
	view  *view
	print io.Writer // for readable output
	done  result.File
}

// workloadFlags are the fields of a workload with a flag of the same name.
var workloadFlags = []struct{ name, usage string }{
	{"name", "name of the workload in the result"},
	{"rate", "messages per second of all publishers together"},
	{"arrivals", "fixed, or poisson like many independent senders"},
	{"seed", "seed of arrivals, sizes, keys and fillers"},
	{"loop", "open, or closed: wait for each answer, which hides the cost of a stall (for demonstration, or with a high rate for throughput)"},
	{"warmup", "time whose messages are not measured"},
	{"duration", "time whose messages are measured"},
	{"cooldown", "time after the measured one in which the load continues"},
	{"timeout", "wait after the last message for the rest to arrive"},
	{"size", "size of a message: 1KiB, 256B..4KiB, or with weights 256B:90,1MiB:10"},
	{"compressible", "repeating fraction of a message, 0 to 1"},
	{"keys", "number of different keys (0: none)"},
	{"key-skew", "exponent of a Zipf distribution of the keys, above 1 (0: uniform)"},
	{"topics", "number of topics; publishers alternate between them"},
	{"partitions", "number of partitions of each topic"},
	{"publishers", "number of publishing connections"},
	{"subscribers", "number of receiving connections of each topic (0: none)"},
	{"shared", "true: subscribers share the messages; false: each gets all"},
	{"batch", "messages that a publisher sends together (0: each alone)"},
	{"in-flight", "unacknowledged messages of all publishers (0: as many as fit into 256 MiB, up to 20,000)"},
	{"lag-limit", "largest lag of the generator in a valid run, in percent of the measured p99"},
}

// flags adds the flags of all measuring commands to cmd.
func (s *session) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVarP(&s.targets, "target", "t", nil, `target to measure, may be repeated: "DRIVER address=... label=... pid=... data=... OPTION=..."; see seb-bench drivers`)
	f.StringArrayVar(&s.faults, "fault", nil, `fault to inject, may be repeated: "pause at=10s for=1s", "slow at=5s for=2s delay=1ms", "hold at=5s for=2s", `+
		`"restart at=9s run=COMMAND", "command at=9s run=COMMAND"`)
	f.IntVar(&s.repeat, "repeat", 1, "repeats of each target, alternating")
	f.StringVarP(&s.out, "out", "o", "", "result file (default NAME-DATE-TIME.json)")
	f.StringVar(&s.hdr, "hdr", "", "folder for each run's histograms as text: .hlog by seconds, .hgrm by percentiles")
	f.DurationVar(&s.floor, "floor", 2*time.Second, "duration of the same load without a broker before each run (0: none)")
	f.DurationVar(&s.spin, "spin", defaultSpin(), "time before each send in which to poll the clock instead of sleeping: exact, but uses a core")
	f.BoolVarP(&s.quiet, "quiet", "q", false, "do not show progress")
	f.BoolVar(&s.strict, "strict", false, "return an error if a run is invalid, or messages failed, were lost, damaged or duplicated")
	for _, w := range workloadFlags {
		f.String(w.name, "", w.usage)
	}
	s.together.flags(cmd)
}

// defaultSpin uses a core only if enough are available.
func defaultSpin() time.Duration {
	if runtime.NumCPU() <= 2 {
		return 0
	}
	return 100 * time.Microsecond
}

// repeatMax bounds the repeats.
const repeatMax = 1000

// open reads the workload from a file or preset, then from flags.
func (s *session) open(cmd *cobra.Command, args []string) error {
	s.file = workload.File{Workload: workload.Default()}
	if len(args) > 0 {
		file, err := workload.Read(args[0])
		if err != nil {
			return err
		}
		s.file = file
	}
	for _, w := range workloadFlags {
		if f := cmd.Flags().Lookup(w.name); f.Changed {
			if err := s.file.Set(w.name, f.Value.String()); err != nil {
				return err
			}
		}
	}
	for _, text := range s.faults {
		fault, err := workload.ParseFault(text)
		if err != nil {
			return err
		}
		s.file.Faults = append(s.file.Faults, fault)
	}
	if len(s.targets) > 0 {
		s.file.Targets = nil
	}
	for _, text := range s.targets {
		target, err := workload.ParseTarget(text)
		if err != nil {
			return err
		}
		s.file.Targets = append(s.file.Targets, target)
	}
	switch {
	case len(s.file.Targets) == 0:
		return errors.New("no target: give one with --target or in the file; seb-bench drivers lists the drivers")
	case s.repeat < 1 || s.repeat > repeatMax:
		return fmt.Errorf("--repeat: want 1 to %d, given %d", repeatMax, s.repeat)
	case s.spin < 0 || s.spin > time.Second:
		return fmt.Errorf("--spin: want 0 to 1s, given %v", s.spin)
	case s.floor < 0:
		return fmt.Errorf("--floor: want 0 or more, given %v", s.floor)
	}
	if err := s.file.Validate(); err != nil {
		return err
	}
	if err := s.together.open(cmd); err != nil {
		return err
	}
	s.clock = load.NewMonotonicClock(s.spin)
	s.print = cmd.OutOrStdout()
	s.done.Tool = result.ThisTool(version)
	if !s.quiet {
		s.view = newView(cmd.ErrOrStderr(), isTerminal(cmd.ErrOrStderr()), 5*time.Second)
	}
	s.out = cmp.Or(s.out, fmt.Sprintf("%s-%s.json", report.FileName(filepath.Base(s.file.Name)), time.Now().Format("20060102-150405")))
	return nil
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// measure performs a run and keeps its result.
func (s *session) measure(ctx context.Context, w workload.Workload, t workload.Target) (*result.Run, error) {
	o := load.Options{Workload: w, Target: t, Clock: s.clock, Spin: s.spin, Floor: s.floor}
	if s.view != nil {
		o.Progress = s.view.Show
		defer s.view.Done()
	}
	if s.hdr != "" {
		if err := os.MkdirAll(s.hdr, 0o755); err != nil {
			return nil, err
		}
	}
	do := load.Run
	if s.together.team != nil {
		do = s.together.run
	}
	res, err := do(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Name(), err)
	}
	if s.hdr != "" {
		name := fmt.Sprintf("%03d-%s", len(s.done.Runs)+1, report.FileName(filepath.Base(t.Name())))
		if err := writeHDR(filepath.Join(s.hdr, name), res); err != nil {
			return nil, err
		}
	}
	s.done.Runs = append(s.done.Runs, *res)
	kept := &s.done.Runs[len(s.done.Runs)-1]
	kept.Repeat = s.repeats(kept)
	// Results so far are saved even if a later step fails.
	return kept, s.done.Write(s.out)
}

// repeats counts the runs so far that are like r, including r.
func (s *session) repeats(r *result.Run) (n int) {
	for i := range s.done.Runs {
		o := &s.done.Runs[i]
		if o.Label == r.Label && o.Workload.Rate == r.Workload.Rate && o.Workload.Size.String() == r.Workload.Size.String() &&
			o.Workload.Duration == r.Workload.Duration {
			n++
		}
	}
	return n
}

// verdict returns the error of a strict session with faulty runs.
func (s *session) verdict() error {
	if !s.strict {
		return nil
	}
	for i := range s.done.Runs {
		r := &s.done.Runs[i]
		if !r.Validity.Valid {
			return fmt.Errorf("run %d, %s: invalid: %s", i+1, r.Label, strings.Join(r.Validity.Reasons, "; "))
		}
		if !r.Counts.Clean() {
			return fmt.Errorf("run %d, %s: %s", i+1, r.Label, wrong(&r.Counts))
		}
	}
	return nil
}

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
