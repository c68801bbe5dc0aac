// Command journal runs the journal of disk buckets on a simulated machine: processes that are
// stopped, continued and killed between any two steps, power failures that leave any subset of what
// was not synced, failed syncs, full disks and flipped bits. It checks that each name has one
// winner, and that no acknowledged or shown name is lost. It prints totals every ten seconds. For a
// violation it prints the seed, and -seed repeats it with a trace of every step. Modes:
//
//	seeds    fresh seeds for -time, about 60 in a second
//	images   small runs for -time; after each change of the disk, every image that a power failure
//	         can leave is read by a new process
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"time"

	"github.com/sebbroker/seb/test/campaign"
)

//go:embed main.go
var source string

func main() {
	mode := flag.String("mode", "seeds", "mode: seeds or images")
	seed := flag.Uint64("seed", 0, "seed to repeat with a trace (0: fresh seeds)")
	d := flag.Duration("time", 30*time.Second, "time to run fresh seeds")
	campaign.Main(source, func(context.Context) ([]campaign.Step, error) {
		test, ok := map[string]string{"seeds": "^TestSeeds$", "images": "^TestImages$"}[*mode]
		if !ok {
			return nil, fmt.Errorf("-mode %s: want seeds or images", *mode)
		}
		args := []string{"-simtime=" + d.String()}
		if *seed != 0 {
			args = campaign.Flags("seed")
		}
		return []campaign.Step{campaign.Test("test/journalsim", test, args...)}, nil
	})
}
