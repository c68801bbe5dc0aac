package noop_test

import (
	"testing"

	"github.com/sebbroker/seb/bench/drivers/contract"
	_ "github.com/sebbroker/seb/bench/drivers/noop" // registers itself
)

func TestContract(t *testing.T) {
	for _, driver := range []string{"noop", "noop-tcp"} {
		t.Run(driver, func(t *testing.T) { contract.Run(t, contract.Target{Driver: driver}) })
	}
}
