// Command peers-test runs the contract of every driver of the bench on a real broker, which it
// starts and, at the end, kills. It installs Redis, RabbitMQ, NATS and Kafka into bench/.cache at
// first; then it takes a few minutes. It prints what go test prints.
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
	flag.String("run", "", "only tests that match this `regexp`")
	flag.Duration("timeout", 40*time.Minute, "time for each package")
	campaign.Main(source, func(context.Context) ([]campaign.Step, error) {
		return []campaign.Step{{
			Dir: "bench", Env: []string{"SEB_BENCH_PEERS=1"},
			Args: append([]string{"go", "test", "./drivers/...", "./peers/...", "-p", "1", "-count=1"}, campaign.Flags("run", "timeout")...),
		}}, nil
	})
}
