package interop

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

const (
	// away is how long the broker is down, and backWithin how soon after its start a worker must
	// work again. Connect waits 5 minutes for a lost worker.
	away       = 30 * time.Second
	backWithin = 15 * time.Second
)

// admin returns a client for checks.
func admin(t *testing.T, b *testenv.InteropBroker) *kadm.Client {
	t.Helper()
	c := must.Get(kgo.NewClient(kgo.SeedBrokers(b.Address), kgo.SASL(plain.Auth{User: "seb", Pass: testenv.InteropKey}.AsMechanism())))(t)
	t.Cleanup(c.Close)
	return kadm.NewClient(c)
}

// nodeID returns the ID of the only broker, which belongs to its address.
func nodeID(t *testing.T, b *testenv.InteropBroker) int32 {
	return must.Get(admin(t, b).BrokerMetadata(t.Context()))(t).Controller
}

// write appends records to partition 0 of a topic.
func write(t *testing.T, b *testenv.InteropBroker, topic string, values ...string) {
	t.Helper()
	c := must.Get(kgo.NewClient(
		kgo.SeedBrokers(b.Address), kgo.SASL(plain.Auth{User: "seb", Pass: testenv.InteropKey}.AsMechanism()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	))(t)
	defer c.Close()
	for _, v := range values {
		must.NoError(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr())
	}
}

// holds returns a function that reports whether a topic has n records.
func holds(a *kadm.Client, topic string, n int64) func() bool {
	return func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		ends, err := a.ListEndOffsets(ctx, topic)
		total := int64(0)
		ends.Each(func(o kadm.ListedOffset) { total += o.Offset })
		return err == nil && total >= n
	}
}

// connect starts a class of Connect with a file of properties.
func connect(t *testing.T, class, properties string) *java {
	t.Helper()
	path := must.Get(JavaConnect(t.Context()))(t)
	file := filepath.Join(t.TempDir(), "connect.properties")
	must.NoError(t, os.WriteFile(file, []byte(properties), 0o600))
	p := start(t, path, nil, class, file)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the output of %s:\n%s", class, p.Log())
		}
	})
	return p
}

// clientOf returns the properties of a broker's client, with a prefix.
func clientOf(b *testenv.InteropBroker, prefix string) string {
	return fmt.Sprintf(`%[1]sbootstrap.servers=%[2]s
%[1]ssecurity.protocol=SASL_PLAINTEXT
%[1]ssasl.mechanism=SCRAM-SHA-512
%[1]ssasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="seb" password="%[3]s";
`, prefix, b.Address, testenv.InteropKey)
}

// backAfter restarts a broker, calls change, and waits until done returns true.
func backAfter(t *testing.T, b *testenv.InteropBroker, change func(), done func() bool) time.Duration {
	t.Helper()
	b.Restart(away)
	begin := time.Now()
	change()
	sebtest.Eventually(t, "work after the broker's start", done)
	took := time.Since(begin)
	if took > backWithin {
		t.Errorf("the first record came %v after the broker's start, want %v", took, backWithin)
	}
	return took
}

// TestMirrorMaker copies records, settings and committed offsets from one broker to another, and
// continues after the second was down.
func TestMirrorMaker(t *testing.T) {
	testenv.InteropWanted(t)
	begin := time.Now()
	from, to := testenv.ServeInterop(t), testenv.ServeInterop(t)
	source, target := admin(t, from), admin(t, to)
	retention := "7777000"
	must.Get(source.CreateTopic(t.Context(), 2, 1, map[string]*string{"retention.ms": &retention}, "plants"))(t)
	write(t, from, "plants", "rose", "lily", "tulip")
	offsets := kadm.Offsets{}
	offsets.AddOffset("plants", 0, 2, -1)
	must.NoError(t, source.CommitAllOffsets(t.Context(), "gardeners", offsets))
	connect(t, "org.apache.kafka.connect.mirror.MirrorMaker", `clusters=a, b
a->b.enabled=true
a->b.topics=plants
b->a.enabled=false
b->a.emit.heartbeats.enabled=false
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1
refresh.topics.interval.seconds=1
refresh.groups.interval.seconds=1
sync.topic.configs.interval.seconds=1
sync.topic.acls.enabled=true
sync.group.offsets.enabled=true
sync.group.offsets.interval.seconds=1
emit.checkpoints.interval.seconds=1
offset.lag.max=0
`+clientOf(from, "a.")+clientOf(to, "b."))
	sebtest.Eventually(t, "three records", holds(target, "a.plants", 3))
	sebtest.Eventually(t, "the setting", func() bool {
		all, err := target.DescribeTopicConfigs(t.Context(), "a.plants")
		if err != nil || len(all) != 1 || all[0].Err != nil {
			return false
		}
		for _, c := range all[0].Configs {
			if c.Key == "retention.ms" && c.MaybeValue() == retention {
				return true
			}
		}
		return false
	})
	// Offsets of a group are translated only while records are copied.
	write(t, from, "plants", "poppy")
	sebtest.Eventually(t, "the committed offset", func() bool {
		got, err := target.FetchOffsets(t.Context(), "gardeners")
		at, there := got.Lookup("a.plants", 0)
		return err == nil && there && at.At > 0 && at.At <= 2
	})
	took := backAfter(t, to, func() { write(t, from, "plants", "daisy") }, holds(target, "a.plants", 5))
	testenv.Report("MirrorMaker 2", "records, settings and offsets; the target was down for 30 s", time.Since(begin), "back after "+took.Round(time.Second/10).String())
}

// TestConnect runs a worker that copies a file's lines into a topic, while the broker is down for a
// time.
func TestConnect(t *testing.T) {
	testenv.InteropWanted(t)
	begin := time.Now()
	b := testenv.ServeInterop(t)
	a := admin(t, b)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	rest := "http://" + l.Addr().String()
	must.NoError(t, l.Close())
	lines := filepath.Join(b.Dir, "lines")
	add := func(text string) {
		f, err := os.OpenFile(lines, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(text)
		}
		must.NoError(t, err)
		_ = f.Close()
	}
	add("rose\nlily\n")
	connect(t, "org.apache.kafka.connect.cli.ConnectDistributed", `group.id=connect
config.storage.topic=connect-configs
config.storage.replication.factor=1
offset.storage.topic=connect-offsets
offset.storage.replication.factor=1
status.storage.topic=connect-status
status.storage.replication.factor=1
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.flush.interval.ms=1000
listeners=`+rest+"\n"+clientOf(b, "")+clientOf(b, "producer."))
	sebtest.Eventually(t, "the connector", func() bool {
		body := fmt.Sprintf(`{"name": "lines", "config": {"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "file": %q, "topic": "lines"}}`, lines)
		r, err := http.Post(rest+"/connectors", "application/json", strings.NewReader(body))
		if err != nil {
			return false
		}
		defer r.Body.Close()
		_, _ = io.Copy(io.Discard, r.Body)
		return r.StatusCode == http.StatusCreated || r.StatusCode == http.StatusConflict && holds(a, "lines", 1)()
	})
	sebtest.Eventually(t, "two lines", holds(a, "lines", 2))
	took := backAfter(t, b, func() { add("daisy\n") }, holds(a, "lines", 3))
	testenv.Report("Connect", "one worker with a file as its source; the broker was down for 30 s", time.Since(begin), "back after "+took.Round(time.Second/10).String())
}
