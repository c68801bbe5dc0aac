package redis_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sebbroker/seb/bench/drivers/contract"
	_ "github.com/sebbroker/seb/bench/drivers/redis" // registers itself
	"github.com/sebbroker/seb/bench/peers/peerstest"
)

// left lists keys and channels of a run's name.
func left(ctx context.Context, address, name string) ([]string, error) {
	c := redis.NewClient(&redis.Options{Addr: address})
	defer c.Close()
	keys, err := c.Keys(ctx, "*"+name+"*").Result()
	if err != nil {
		return nil, err
	}
	channels, err := c.PubSubChannels(ctx, "*"+name+"*").Result()
	return append(keys, channels...), err
}

func TestContractPubSub(t *testing.T) {
	p, own := peerstest.Find(t, "redis-memory")
	peerstest.Contract(t, p, own, contract.Target{Driver: "redis-pubsub", Left: left, NoSharing: true})
}

func TestContractStreams(t *testing.T) {
	p, own := peerstest.Find(t, "redis-memory")
	peerstest.Contract(t, p, own, contract.Target{Driver: "redis-streams", Left: left})
}

func TestContractStreamsFsync(t *testing.T) {
	p, own := peerstest.Find(t, "redis-fsync")
	peerstest.Contract(t, p, own, contract.Target{Driver: "redis-streams", Left: left})
}
