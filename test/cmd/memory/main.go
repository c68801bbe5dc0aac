// Command memory runs a broker with --memory-limit 64MiB on the S3 server, in a control group of 64
// MiB where the system permits that: thousands of clients, a store that answers late, idle and slow
// connections, clients that come and go. It takes about twenty minutes and prints what the broker
// used and how many requests it refused.
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
	churn := flag.Duration("time", 10*time.Minute, "how long clients come and go")
	flag.Int("clients", 2000, "number of clients that push at once")
	flag.Duration("push", 3*time.Minute, "how long these begin requests")
	flag.Duration("store-delay", 10*time.Second, "delay of the store's answers meanwhile")
	flag.Int("idle", 5000, "number of idle connections")
	campaign.Main(source, func(ctx context.Context) ([]campaign.Step, error) {
		args := append(campaign.Flags("clients", "push", "store-delay", "idle"), "-churn="+churn.String())
		return []campaign.Step{campaign.Test("test/pressure", ".", args...)}, campaign.S3(ctx)
	})
}
