// Command costs counts the requests between brokers and the S3 server, at a proxy between them. It
// prints the table of docs/reports/costs.md: brokers side by side, with all that goes on in the background.
// That takes an hour and 40 minutes. With -requests it counts those of an idle broker, and of 1 and
// of 20 topics that are written; that takes 13 minutes.
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
	flag.Duration("costs-warm", 40*time.Minute, "how long the brokers of the table run before counting begins")
	flag.Duration("costs-measure", time.Hour, "how long the requests of the table are counted")
	requests := flag.Bool("requests", false, "count the requests of an idle broker and of one that is written, instead of the table")
	flag.Duration("idle", 10*time.Minute, "with -requests: how long an idle broker is watched")
	flag.Duration("write", time.Minute, "with -requests: how long 1 and 20 topics are written")
	flag.Duration("batch-wait", time.Second, "with -requests: batch wait time of the broker that is written")
	campaign.Main(source, func(ctx context.Context) ([]campaign.Step, error) {
		step := campaign.Test("test/torture", "^TestCosts$", campaign.Flags("costs-warm", "costs-measure")...)
		if *requests {
			step = campaign.Test("test/torture", "TestIdle|TestPuts", campaign.Flags("idle", "write", "batch-wait")...)
		}
		return []campaign.Step{step}, campaign.S3(ctx)
	})
}
