package kafka_test

import (
	"context"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sebbroker/seb/bench/drivers/contract"
	_ "github.com/sebbroker/seb/bench/drivers/kafka" // registers itself
	"github.com/sebbroker/seb/bench/peers/peerstest"
)

// left lists topics and groups of a run's name.
func left(ctx context.Context, address, name string) ([]string, error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	admin := kadm.NewClient(c)
	topics, err := admin.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	groups, err := admin.ListGroups(ctx)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, found := range append(topics.Names(), groups.Groups()...) {
		if strings.Contains(found, name) {
			list = append(list, found)
		}
	}
	return list, nil
}

func TestContractPageCache(t *testing.T) {
	p, own := peerstest.Find(t, "kafka-memory")
	peerstest.Contract(t, p, own, contract.Target{Driver: "kafka", Left: left})
}

func TestContractFsync(t *testing.T) {
	p, own := peerstest.Find(t, "kafka-fsync")
	peerstest.Contract(t, p, own, contract.Target{Driver: "kafka", Left: left})
}
