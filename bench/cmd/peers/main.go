// Command peers compares Seb with Kafka, NATS, RabbitMQ and Redis, which it installs into .cache,
// and writes docs/reports/latency-figures.md: it builds bin/seb-bench and runs `seb-bench
// campaign`. By default it takes three quarters of an hour. The same command continues an
// interrupted campaign. It prints each run with the remaining time.
//
//	go run ./cmd/peers -duration 20s -repeats 5
//	go run ./cmd/peers -only kafka,seb -runs a,b    # the missing ones of these; with -fresh all of them
//	go run ./cmd/peers -long -runs d                # 10 minutes each, of Seb, NATS and Redis
//	go run ./cmd/peers -flushed                     # brokers that flush each send; needs strace for a part
//	go run ./cmd/peers -report                      # measures nothing, writes the existing results
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
	flag.Duration("duration", 0, "measured time of each run (0: 5s to 20s, as the budget allows)")
	flag.Int("repeats", 0, "repeats of each run (0: 3, or 5 with -long or -flushed)")
	flag.Duration("budget", 45*time.Minute, "time for the whole campaign, which sets the duration of the runs")
	flag.String("only", "", "systems by label, peer or family, separated by commas (empty: all)")
	flag.String("runs", "", "works such as a,d or article-b, separated by commas (empty: all)")
	flag.String("parts", "", "parts: runs, batch-wait, follower, loops; with -flushed flushed, flush (empty: all)")
	flag.Bool("long", false, "runs of 10 minutes of Seb, NATS and Redis, in a separate section")
	flag.Bool("flushed", false, "brokers that flush before they acknowledge, without subscribers, in a separate section")
	flag.Bool("fresh", false, "measure selected runs again")
	flag.Bool("report", false, "measure nothing, write the existing results")
	flag.Bool("dry-run", false, "list the runs and their duration")
	fifo := flag.Bool("fifo", false, "run the generator with real-time priority, if permitted")
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
