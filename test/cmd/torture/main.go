// Command torture kills, stops and disconnects real brokers, on disk and on the S3 server, while
// clients of HTTP and Kafka write and read. It checks the history that the clients saw. It runs
// until one of its limits is reached, by default for half a minute, and prints the totals. A failed
// run keeps its history, and its seed repeats it:
//
//	go run ./test/cmd/torture -time 10m
//	go run ./test/cmd/torture -kills 10000 -time 1h
//	go run ./test/cmd/torture -kills 3000 -only journal
//	go run ./test/cmd/torture -seed 17
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
	seed := flag.Uint64("seed", 0, "seed of the run to repeat (0: fresh seeds)")
	kills := flag.Int64("kills", 0, "number of brokers to kill (0: no limit)")
	flag.String("only", "", "only runs on this kind of bucket: s3, folder or journal (a folder with journals)")
	d := flag.Duration("time", 0, "time to run fresh seeds (0: 30s without -seed and -kills, otherwise no limit)")
	campaign.Main(source, func(ctx context.Context) ([]campaign.Step, error) {
		if *seed == 0 && *kills == 0 && *d == 0 {
			*d = 30 * time.Second
		}
		return []campaign.Step{campaign.Test("test/torture", "^TestTorture$", campaign.Flags("seed", "kills", "time", "only")...)}, campaign.S3(ctx)
	})
}
