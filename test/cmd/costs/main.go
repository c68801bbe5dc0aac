// Command costs counts the requests between brokers and the S3 server with a proxy. It prints the
// table of docs/reports/costs.md from several brokers that run at the same time with all background
// work. That takes an hour and 40 minutes. With -requests it counts the requests of an idle broker;
// that takes 20 minutes. With
// -budget it counts the requests of sparse events with a budget, and those of a crash loop; that takes
// 20 minutes.
package main

import (
	"context"
	_ "embed"
	"flag"
	"time"

	"github.com/sebbroker/seb/test/campaign"
)

//go:embed main.go
var source string

func main() {
	flag.Duration("costs-warm", 40*time.Minute, "run time of the brokers before counting begins")
	flag.Duration("costs-measure", time.Hour, "time to count requests for the table")
	requests := flag.Bool("requests", false, "count the requests of an idle broker instead of the table")
	flag.Duration("idle", 10*time.Minute, "with -requests: time to count an idle broker's requests")
	budget := flag.Bool("budget", false, "count the requests of brokers with a budget of PUTs")
	flag.Int("budget-events", 2000, "with -budget: sparse events")
	flag.Float64("budget-median", 1.3, "with -budget: largest median of their latency, in medians of a PUT")
	flag.Int("budget-restarts", 60, "with -budget: starts of the crash loop")
	campaign.Main(source, func(ctx context.Context) ([]campaign.Step, error) {
		step := campaign.Test("test/torture", "^TestCosts$", campaign.Flags("costs-warm", "costs-measure")...)
		if *requests {
			step = campaign.Test("test/torture", "TestIdle", campaign.Flags("idle")...)
		}
		if *budget {
			step = campaign.Test("test/torture", "^TestBudget", campaign.Flags("budget-events", "budget-median", "budget-restarts")...)
		}
		return []campaign.Step{step}, campaign.S3(ctx)
	})
}
