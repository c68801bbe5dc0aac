// Command costs counts the requests between brokers and the S3 server with a proxy. It prints the
// table of docs/reports/costs.md from several brokers that run at the same time with all background
// work. That takes an hour and 40 minutes. With -requests it counts the requests of an idle broker,
// and of 1 and of 20 topics that are written; that takes 13 minutes.
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
	requests := flag.Bool("requests", false, "count the requests of an idle and of a busy broker instead of the table")
	flag.Duration("idle", 10*time.Minute, "with -requests: time to count an idle broker's requests")
	flag.Duration("write", time.Minute, "with -requests: time to write 1 and 20 topics")
	flag.Duration("batch-wait", time.Second, "with -requests: batch wait time of the busy broker")
	campaign.Main(source, func(ctx context.Context) ([]campaign.Step, error) {
		step := campaign.Test("test/torture", "^TestCosts$", campaign.Flags("costs-warm", "costs-measure")...)
		if *requests {
			step = campaign.Test("test/torture", "TestIdle|TestPuts", campaign.Flags("idle", "write", "batch-wait")...)
		}
		return []campaign.Step{step}, campaign.S3(ctx)
	})
}
