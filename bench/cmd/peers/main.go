// Command peers measures Seb beside Kafka, NATS, RabbitMQ and Redis, which it installs into .cache,
// and writes docs/reports/latency-figures.md: it builds bin/seb-bench and runs `seb-bench campaign`. By default it
// takes three quarters of an hour. What was cut off continues where it was when the same command is
// given again. It prints each run with the time that is left.
//
//	go run ./cmd/peers -duration 20s -repeats 5
//	go run ./cmd/peers -only kafka,seb -runs a,b    # those again that are missing; with -fresh though they are there
//	go run ./cmd/peers -long -runs d                # 10 minutes each, of Seb, NATS and Redis
//	go run ./cmd/peers -report                      # measures nothing, writes what is there
package main

import (
	"context"
	_ "embed"
	"flag"
	"slices"
	"time"

	"github.com/sebbroker/seb/test/campaign"
)

//go:embed main.go
var source string

func main() {
	flag.Duration("duration", 0, "how long each run measures; 0: 5s to 20s, what the budget allows")
	flag.Int("repeats", 0, "how often each run is done; 0: 3, with -long 5")
	flag.Duration("budget", 45*time.Minute, "how long all of it may take, which sets the duration of the runs")
	flag.String("only", "", "systems by label, peer or family, with commas between; empty: all")
	flag.String("runs", "", "works, as in a,d or article-b, with commas between; empty: all")
	flag.String("parts", "", "parts: runs, batch-wait, follower, loops; empty: all")
	flag.Bool("long", false, "runs of 10 minutes of Seb, NATS and Redis, which have a section of their own")
	flag.Bool("fresh", false, "measure again what is selected, though it was measured")
	flag.Bool("report", false, "measure nothing, write what is there")
	flag.Bool("dry-run", false, "list what would be done, and how long it takes")
	fifo := flag.Bool("fifo", false, "run the generator with real-time priority, where that is permitted")
	campaign.Main(source, func(ctx context.Context) ([]campaign.Step, error) {
		args := []string{"bin/seb-bench", "campaign"}
		if *fifo {
			args = slices.Concat(campaign.RealTime(), args)
		}
		flag.Visit(func(f *flag.Flag) {
			if f.Name != "fifo" {
				args = append(args, "--"+f.Name+"="+f.Value.String())
			}
		})
		return []campaign.Step{{Args: args}}, campaign.BuildSebBench(ctx)
	})
}
