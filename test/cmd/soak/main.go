// Command soak compresses an hour of a broker's life, on the real S3 server: 1,000 topics, mixed
// load, short intervals, and killed brokers, half of them with the loss of their disk. Then it
// starts brokers with an empty disk on a bucket of 1,000 packs, and measures a follower. It takes
// half an hour and prints totals, start times and memory.
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
	flag.Duration("life", 25*time.Minute, "duration of the load")
	campaign.Main(source, func(ctx context.Context) ([]campaign.Step, error) {
		return []campaign.Step{campaign.Test("test/torture", "^(TestSoak|TestStart|TestFollower)$", append([]string{"-args", "-long"}, campaign.Flags("life")...)...)}, campaign.S3(ctx)
	})
}
