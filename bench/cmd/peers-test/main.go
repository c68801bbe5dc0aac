// Command peers-test runs the contract of every driver of the bench on real brokers, which it
// starts and finally kills. It installs Redis, RabbitMQ, NATS and Kafka into bench/.cache on first
// use; after that it takes a few minutes. It prints the output of go test.
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
	flag.String("run", "", "run only tests that match `regexp`")
	flag.Duration("timeout", 40*time.Minute, "time limit of each package")
	campaign.Main(source, func(context.Context) ([]campaign.Step, error) {
		return []campaign.Step{{
			Dir: "bench", Env: []string{"SEB_BENCH_PEERS=1"},
			Args: append([]string{"go", "test", "./drivers", "./peers", "-p", "1", "-count=1"}, campaign.Flags("run", "timeout")...),
		}}, nil
	})
}
