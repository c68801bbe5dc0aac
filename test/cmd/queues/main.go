// Command queues measures workers beside a backlog of ten million messages, and a million delayed ones. Then
// it kills a broker beside workers of its queues over HTTP, of package client, of `seb queue work` and of boto3, which
// settle, retry or forget their messages. Then each acknowledged message must be done by the word of a worker,
// or be one dead letter. It takes an hour, a quarter of it on the real S3 server, and prints totals. With
// -costs it counts the requests to an S3 server whose PUTs take 100 ms instead: of jobs that come alone, of
// 1,000 jobs a second, and of 100 workers that wait. That takes 25 minutes.
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
	flag.Duration("time", 15*time.Minute, "duration of the load on a folder, and again on S3")
	flag.Int("backlog", 10_000_000, "messages beside which workers are measured")
	flag.Int("delayed", 1_000_000, "messages that are delayed, 5,000 of them to each second")
	flag.Duration("every", time.Second, "mean time between two kills")
	costs := flag.Bool("costs", false, "count requests to the object store instead")
	flag.Int("lone-jobs", 200, "with -costs: jobs that come alone")
	flag.Duration("steady", 12*time.Minute, "with -costs: time of 1,000 jobs a second")
	flag.Duration("quiet", 11*time.Minute, "with -costs: time before the requests of waiting workers count")
	flag.Duration("waiting", 12*time.Minute, "with -costs: time in which they count")
	campaign.Main(source, func(ctx context.Context) ([]campaign.Step, error) {
		if *costs {
			args := append([]string{"-parallel=3", "-args"}, campaign.Flags("lone-jobs", "steady", "quiet", "waiting")...)
			return []campaign.Step{campaign.Test("test/queues", "^TestCost", args...)}, campaign.S3(ctx)
		}
		args := append([]string{"-args"}, append(campaign.Flags("time", "every"), "-boto3")...)
		return []campaign.Step{
			campaign.Test("test/queues", "^(TestBacklog|TestDelayed)$", append([]string{"-args"}, campaign.Flags("backlog", "delayed")...)...),
			campaign.Test("test/queues", "^TestKilledBroker$", args...),
			campaign.Test("test/queues", "^TestKilledBroker$", append(args, "-s3")...),
		}, campaign.S3(ctx)
	})
}
