// Command mutants tests the tests: it builds the simulators with the planted bugs of test/mutants, and
// they must find every one. It takes a minute and prints a line for each bug with the time to find
// it.
package main

import (
	"context"
	_ "embed"

	"github.com/sebbroker/seb/test/campaign"
)

//go:embed main.go
var source string

func main() {
	campaign.Main(source, func(context.Context) ([]campaign.Step, error) {
		return []campaign.Step{campaign.Test("test/mutants", "^TestMutants$")}, nil
	})
}
