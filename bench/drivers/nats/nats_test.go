package nats_test

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sebbroker/seb/bench/drivers/contract"
	_ "github.com/sebbroker/seb/bench/drivers/nats" // registers itself
	"github.com/sebbroker/seb/bench/peers/peerstest"
)

// left lists streams of a run's name.
func left(ctx context.Context, address, name string) ([]string, error) {
	c, err := nats.Connect(address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	js, err := jetstream.New(c)
	if err != nil {
		return nil, err
	}
	var list []string
	names := js.StreamNames(ctx)
	for found := range names.Name() {
		if strings.Contains(found, name) {
			list = append(list, found)
		}
	}
	return list, names.Err()
}

func TestContractCore(t *testing.T) {
	p, own := peerstest.Find(t, "nats-memory")
	peerstest.Contract(t, p, own, contract.Target{Driver: "nats", Left: left})
}

func TestContractCoreByPong(t *testing.T) {
	p, own := peerstest.Find(t, "nats-memory")
	for i := range p.Targets {
		if p.Targets[i].Driver == "nats" {
			p.Targets[i].Options = map[string]string{"ack": "pong"}
		}
	}
	peerstest.Contract(t, p, own, contract.Target{Driver: "nats", Left: left})
}

func TestContractJetStreamMemory(t *testing.T) {
	p, own := peerstest.Find(t, "nats-memory")
	peerstest.Contract(t, p, own, contract.Target{Driver: "nats-jetstream", Left: left})
}

func TestContractJetStreamFsync(t *testing.T) {
	p, own := peerstest.Find(t, "nats-fsync")
	peerstest.Contract(t, p, own, contract.Target{Driver: "nats-jetstream", Left: left})
}
