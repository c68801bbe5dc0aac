// Command revocation revokes tokens while their clients are busy, and measures how long each
// connection lives on: event streams, long polls and Kafka consumers, at the leader and at a
// read-only broker, and a Kafka producer with five requests in flight. No record of a revoked client
// may follow, and other clients must not notice. It takes half a minute and prints the times.
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
	flag.Int("rounds", 20, "number of revocations")
	campaign.Main(source, func(context.Context) ([]campaign.Step, error) {
		return []campaign.Step{campaign.Test("test/torture", "^TestRevocation$", append(campaign.Flags("rounds"), "-long")...)}, nil
	})
}
