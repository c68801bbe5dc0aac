// Command damage damages small buckets systematically, and starts every role on each of them: every
// file and folder of a bucket with journals is deleted, cut, zeroed and flipped at 50 places, and
// swapped with others of its kind; the same for pairs, for buckets that were moved with their data
// directory, and for objects that a disk cache still has. Each role serves every acknowledged record,
// or names the damage and a command that works. The control is every moment of an undamaged bucket.
// It prints its progress, then a table of role, kind of file, damage and outcome, and four examples of
// each class of failures. It takes about 15 minutes on two cores.
package main

import (
	"context"
	_ "embed"
	"flag"

	"github.com/sebbroker/seb/test/campaign"
)

//go:embed main.go
var source string

func main() {
	flag.Int("pairs", 1000, "random pairs of damages for each of two buckets")
	flag.String("only", "", "only cases whose name matches this regular expression, as in 'killed: truncated epoch5'")
	campaign.Main(source, func(context.Context) ([]campaign.Step, error) {
		args := append(campaign.Flags("pairs", "only"), "-all")
		return []campaign.Step{campaign.Test("test/damage", ".", args...)}, nil
	})
}
