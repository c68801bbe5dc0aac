// Command sim runs the simulator: brokers, stores and clients in virtual time, with faults chosen
// by a seed, checked against invariants. It prints totals at the end. For a violation it prints the
// seed, and -seed repeats it with a trace. Modes:
//
//	seeds    fresh seeds for -time; one of -share seeds is a month with triggers
//	losses   every object of a bucket is lost, and every pair (a minute); then seeds with losses
//	         and older copies for -time; then mode starts
//	clocks   seeds with wrong clocks for -time, on stores that report the time and on others
//	riemann  seeds with Riemann clients for -time
//	standbys seeds whose fenced brokers follow the log and stand again, for -time
//	cluster  seeds in which production code decides which broker leads, for -time
//	starts   -starts brokers that start alongside another; a minute for 10,000
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"time"

	"github.com/sebbroker/seb/test/campaign"
)

//go:embed main.go
var source string

func main() {
	mode := flag.String("mode", "seeds", "mode: seeds, losses, clocks, riemann, standbys, cluster or starts")
	seed := flag.Uint64("seed", 0, "seed of mode seeds to repeat with a trace (0: fresh seeds)")
	flag.Bool("shrink", false, "find a smaller configuration of -seed that still fails")
	d := flag.Duration("time", 30*time.Second, "time to run fresh seeds")
	flag.Int("share", 20, "one of N seeds in mode seeds is a month (1: only months)")
	flag.Int("starts", 10_000, "number of starts in modes starts and losses")
	campaign.Main(source, func(context.Context) ([]campaign.Step, error) {
		simulate := func(test string, args ...string) campaign.Step {
			return campaign.Test("test/sim", "^"+test+"$", args...)
		}
		simtime := "-simtime=" + d.String()
		starts := simulate("TestStarts", campaign.Flags("starts")...)
		switch *mode {
		case "seeds":
			args := append(campaign.Flags("share"), simtime)
			if *seed != 0 {
				args = campaign.Flags("seed", "shrink")
			}
			return []campaign.Step{simulate("TestSeeds", args...)}, nil
		case "losses":
			return []campaign.Step{campaign.Test("internal/operate/fsck", "^TestLostObjects$", "-pairs"), simulate("TestLosses", simtime), simulate("TestCopies", simtime), starts}, nil
		case "clocks":
			return []campaign.Step{simulate("TestClocks", simtime)}, nil
		case "riemann":
			return []campaign.Step{simulate("TestRiemann", simtime)}, nil
		case "standbys":
			return []campaign.Step{simulate("TestStandbys", simtime)}, nil
		case "cluster":
			return []campaign.Step{simulate("TestClusters", simtime)}, nil
		case "starts":
			return []campaign.Step{starts}, nil
		}
		return nil, fmt.Errorf("-mode %s: want seeds, losses, clocks, riemann, standbys, cluster or starts", *mode)
	})
}
