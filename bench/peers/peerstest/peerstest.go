// Package peerstest gives brokers to tests of drivers.
package peerstest

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/sebbroker/seb/bench/drivers/contract"
	"github.com/sebbroker/seb/bench/peers"
	"github.com/sebbroker/seb/bench/sut"
)

// Variable is the environment variable that, not empty, has tests install and start what they need.
const Variable = "SEB_BENCH_PEERS"

const stopWait = time.Minute

// Start installs and starts a peer for the length of a test.
func Start(t *testing.T, name string) *peers.Peer {
	t.Helper()
	p, err := peers.Start(t.Context(), peers.Options{Progress: t.Output()}, name, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopWait)
		defer cancel()
		if err := p.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	if bytes, err := p.MemoryBytes(); err == nil {
		t.Logf("%s: answered after %.1f s, %d MiB", name, p.Start.Seconds(), bytes>>20)
	}
	return p
}

// Find is Start where Variable is set; else it is the peer that runs, if one does, or the test is skipped. own says that the
// peer is the test's, which may kill it.
func Find(t *testing.T, name string) (p *peers.Peer, own bool) {
	t.Helper()
	if os.Getenv(Variable) != "" {
		return Start(t, name), true
	}
	list, err := peers.Running(peers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(p peers.Peer) bool { return p.Name == name })
	if i < 0 {
		t.Skipf("no %s runs: go run -C bench ./cmd/peers-test starts it, or seb-bench peers up %s", name, name)
	}
	return &list[i], false
}

// Contract tries a driver on a peer: target has its name and what is peculiar to it.
func Contract(t *testing.T, p *peers.Peer, own bool, target contract.Target) {
	t.Helper()
	i := slices.IndexFunc(p.Targets, func(one peers.Target) bool { return one.Driver == target.Driver })
	if i < 0 {
		t.Fatalf("%s is nothing for driver %s", p.Name, target.Driver)
	}
	c := sut.Config{Address: p.Targets[i].Address, Options: p.Targets[i].Options, PID: p.PID}
	target.Config = c
	if own { // what dies in the last of the tests is the one that the others were tried on
		target.Victim = func(t *testing.T) (sut.Config, func()) {
			return c, func() {
				if err := p.Kill(); err != nil {
					t.Error(err)
				}
			}
		}
	}
	contract.Run(t, target)
}
