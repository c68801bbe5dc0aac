// Command backup kills a broker, and the backups of its bucket, at random times: once with the
// bucket on the S3 server and the backup in a folder, and once the other way round. Each restored
// copy must hold every record that was acknowledged before its backup began.
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
	life := flag.Duration("time", 30*time.Minute, "how long")
	flag.Uint64("seed", 0, "seed of the random times; 0 draws one")
	campaign.Main(source, func(ctx context.Context) ([]campaign.Step, error) {
		args := append(campaign.Flags("seed"), "-life="+life.String())
		return []campaign.Step{campaign.Test("test/torture", "^TestBackup$", args...)}, campaign.S3(ctx)
	})
}
