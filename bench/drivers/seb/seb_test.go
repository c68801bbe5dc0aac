package seb_test

import (
	"context"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/sebbroker/seb"
	"github.com/sebbroker/seb/bench/drivers/contract"
	_ "github.com/sebbroker/seb/bench/drivers/seb" // registers itself
	"github.com/sebbroker/seb/bench/peers"
	"github.com/sebbroker/seb/bench/peers/peerstest"
	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/client"
)

func TestContractEmbeddedInMemory(t *testing.T) {
	contract.Run(t, contract.Target{Driver: "seb-embedded", Config: sut.Config{Address: "mem:"}})
}

// TestContractEmbeddedOnDisk: another broker takes over the bucket instead of a kill.
func TestContractEmbeddedOnDisk(t *testing.T) {
	contract.Run(t, contract.Target{
		Driver: "seb-embedded", Config: sut.Config{Address: t.TempDir()},
		Victim: func(t *testing.T) (sut.Config, func()) {
			bucket := t.TempDir()
			return sut.Config{Address: bucket}, func() {
				b, err := seb.Open(t.Context(), seb.Options{Bucket: bucket})
				if err != nil {
					t.Error(err)
					return
				}
				t.Cleanup(func() { _ = b.Close(context.Background()) })
			}
		},
	})
}

// leftTopic lists the topics of a run's name. The peer's folder has the API key.
func leftTopic(keyFile string) func(ctx context.Context, address, name string) ([]string, error) {
	return func(ctx context.Context, address, name string) ([]string, error) {
		key, err := os.ReadFile(keyFile)
		if err != nil {
			return nil, err
		}
		c, err := client.New(address, client.Options{APIKey: strings.TrimSpace(string(key))})
		if err != nil {
			return nil, err
		}
		defer c.Close()
		topics, err := c.Topics(ctx)
		if err != nil {
			return nil, err
		}
		var left []string
		for _, t := range topics {
			if strings.Contains(t.Name, name) {
				left = append(left, t.Name)
			}
		}
		return left, nil
	}
}

func contractHTTP(t *testing.T, p *peers.Peer, own bool, options map[string]string) {
	t.Helper()
	keyFile := p.Targets[0].Options["key-file"]
	p.Targets[0].Options = maps.Clone(p.Targets[0].Options)
	maps.Copy(p.Targets[0].Options, options)
	peerstest.Contract(t, p, own, contract.Target{Driver: "seb", Left: leftTopic(keyFile)})
}

func TestContractMemory(t *testing.T) {
	contractHTTP(t, peerstest.Start(t, "seb-memory"), true, nil)
}

func TestContractDiskByEvents(t *testing.T) {
	contractHTTP(t, peerstest.Start(t, "seb-fsync"), true, map[string]string{"follow": "sse", "pace": "0s"})
}

func TestContractS3(t *testing.T) {
	p, own := peerstest.Find(t, "seb-s3")
	contractHTTP(t, p, own, nil)
}
