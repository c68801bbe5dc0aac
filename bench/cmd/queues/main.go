// Command queues compares Seb's queues with River and procrastinate on PostgreSQL, ElasticMQ, RabbitMQ, NATS
// and Redis, which it installs into .cache. It writes docs/reports/queues.md, and bench/results/queues.json
// with all figures. Each message is 1 KiB, and is sent, leased and settled. The systems take turns, and
// every round starts with another one. An interrupted comparison continues where it stopped.
//
//	go run -C bench ./cmd/queues                    # five rounds; an hour
//	go run -C bench ./cmd/queues -only seb,river    # the missing runs of these
//	go run -C bench ./cmd/queues -report            # measures nothing, writes the existing results
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sebbroker/seb/bench/peers"
	"github.com/sebbroker/seb/bench/queues"
	"github.com/sebbroker/seb/test/campaign"
)

//go:embed main.go
var source string

func main() {
	rounds := flag.Int("rounds", 5, "rounds of all runs")
	measured := flag.Duration("time", 10*time.Second, "measured time of each run")
	only := flag.String("only", "", "parts of the names of systems, separated by commas (empty: all)")
	fresh := flag.Bool("fresh", false, "measure again what is there")
	results := flag.String("results", "bench/results/queues.json", "file of the results")
	flags := flag.String("seb-flags", "", "additional flags of seb serve, such as --http-debug-enable for profiles")
	report := flag.Bool("report", false, "measure nothing, write the existing results")
	document := flag.String("document", "docs/reports/queues.md", "the report (empty: none)")
	campaign.Do(source, func(ctx context.Context) error {
		var list []string
		if *only != "" {
			list = strings.Split(*only, ",")
		}
		cache, err := filepath.Abs("bench/.cache")
		if err != nil {
			return err
		}
		if err := os.MkdirAll(cache, 0o750); err != nil {
			return err
		}
		var file *queues.File
		if *report {
			file, err = queues.Read(*results)
		} else {
			file, err = queues.Compare(ctx, queues.Options{
				Rounds: *rounds, Time: *measured, Only: list, Fresh: *fresh, File: *results, Version: version(ctx), Out: os.Stdout,
				Peers: peers.Options{Cache: cache, Data: filepath.Join(cache, "queues"), Progress: os.Stdout, SebFlags: strings.Fields(*flags)},
			})
		}
		if err != nil || *document == "" {
			return err
		}
		fmt.Println("writing", *document)
		return file.Write(*document)
	})
}

// version is the commit of the source, without regard to results and documents, which the program writes.
func version(ctx context.Context) string {
	v := strings.TrimSuffix(campaign.Version(ctx), "-dirty")
	if exec.CommandContext(ctx, "git", "diff", "--quiet", "HEAD", "--", ".", ":!bench/results", ":!docs").Run() != nil {
		v += "-dirty"
	}
	return v
}
