package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"go.uber.org/goleak"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/group/coordinator"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const apiKey = "the-api-key"

// cluster is a broker in this process, and a client of it.
type cluster struct {
	address string
	client  *kgo.Client
	admin   *kadm.Client
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	b := must.Get(broker.Open(t.Context(), broker.Options{
		Options: log.Options{Store: objstore.NewMemory(), Budget: budget.New(256 << 20), Batch: log.Config{Wait: time.Millisecond}, Logger: quiet},
	}))(t)
	groups := coordinator.Open(t.Context(), coordinator.Options{Broker: b, InitialDelay: -1, Logger: quiet})
	authority := auth.New(auth.Options{Broker: b, RootKey: apiKey})
	server := must.Get(kafka.New(b, kafka.Options{Auth: authority, Groups: groups, Logger: quiet}))(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	served := make(chan error, 1)
	go func() { served <- server.Serve(context.Background(), l) }()
	t.Cleanup(func() {
		ctx := context.Background()
		server.Drain()
		groups.Close()
		err := server.Close(ctx)
		authority.Close()
		check.NoError(t, errors.Join(err, <-served, b.Close(ctx)))
	})
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(l.Addr().String()), kgo.SASL(plain.Auth{User: "seb", Pass: apiKey}.AsMechanism()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(10*time.Millisecond)))(t)
	t.Cleanup(client.Close)
	return &cluster{l.Addr().String(), client, kadm.NewClient(client)}
}

// topic creates a topic.
func (c *cluster) topic(t *testing.T, name string, partitions int, policy string) {
	t.Helper()
	_, err := c.admin.CreateTopic(t.Context(), int32(partitions), 1, map[string]*string{"cleanup.policy": &policy}, name)
	must.NoError(t, err)
}

// produce appends records to a partition.
func (c *cluster) produce(t *testing.T, topic string, partition int32, records ...*kgo.Record) {
	t.Helper()
	for _, r := range records {
		r.Topic, r.Partition = topic, partition
	}
	must.NoError(t, c.client.ProduceSync(t.Context(), records...).FirstErr())
}

// commit sets the offset of a group in partition 0 of a topic.
func (c *cluster) commit(t *testing.T, group, topic string, offset int64) {
	t.Helper()
	var o kadm.Offsets
	o.AddOffset(topic, 0, offset, -1)
	must.NoError(t, c.admin.CommitAllOffsets(t.Context(), group, o))
}

// records parses records such as "key=value", "key" for a tombstone, "key=value+header", and
// "key=value@7" with a timestamp. Without one it is 1.
func records(text string) (list []*kgo.Record) {
	for word := range strings.FieldsSeq(text) {
		r := &kgo.Record{Timestamp: time.UnixMilli(1)}
		word, at, timed := strings.Cut(word, "@")
		if timed {
			r.Timestamp = time.UnixMilli(int64(at[0] - '0'))
		}
		word, header, has := strings.Cut(word, "+")
		if has {
			r.Headers = []kgo.RecordHeader{{Key: header, Value: []byte("h")}}
		}
		key, value, has := strings.Cut(word, "=")
		r.Key = []byte(key)
		if has {
			r.Value = []byte(value)
		}
		list = append(list, r)
	}
	return list
}

// checked is the result of a check.
type checked struct {
	out, err string
	code     int
}

// check runs the program with two clusters.
func runCheck(t *testing.T, from, to *cluster, args ...string) checked {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	must.NoError(t, os.WriteFile(key, []byte(apiKey+"\n"), 0o600))
	var out, stderr strings.Builder
	code := run(t.Context(), append([]string{
		"check", "--from", from.address, "--from-user", "seb", "--from-password-file", key,
		"--to", to.address, "--to-user", "seb", "--to-password-file", key, "--to-sasl", "plain",
	}, args...), &out, &stderr)
	return checked{out.String(), stderr.String(), code}
}
