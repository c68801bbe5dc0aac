// Command memory runs a broker with --memory-limit 64MiB on the S3 server, in a control group of 64
// MiB if the system permits that. It has thousands of clients, a slow store, idle and slow
// connections, and clients that connect and disconnect. It takes about twenty minutes and prints
// the memory use and the number of refused requests.
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
	churn := flag.Duration("time", 10*time.Minute, "time with clients that connect and disconnect")
	flag.Int("clients", 2000, "number of concurrent clients")
	flag.Duration("push", 3*time.Minute, "time during which they start requests")
	flag.Duration("store-delay", 10*time.Second, "delay of the store's answers during that time")
	flag.Int("idle", 5000, "number of idle connections")
	flag.Int("journal-records", 200_000, "number of records that are stored one by one in a journal")
	campaign.Main(source, func(ctx context.Context) ([]campaign.Step, error) {
		args := append(campaign.Flags("clients", "push", "store-delay", "idle", "journal-records"), "-churn="+churn.String())
		return []campaign.Step{campaign.Test("test/pressure", ".", args...)}, campaign.S3(ctx)
	})
}
