package server_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// kafkaClient returns a client that knows the address of one broker.
func (c *crew) kafkaClient(s *server.Server, opts ...kgo.Opt) *kgo.Client {
	c.Helper()
	k := must.Get(kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(s.KafkaAddress()), kgo.SASL(scram.Auth{User: "seb", Pass: s.APIKey()}.AsSha512Mechanism()), kgo.AllowAutoTopicCreation(),
		kgo.RetryTimeout(time.Minute), kgo.RequestRetries(1000), kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }),
		kgo.MetadataMinAge(10 * time.Millisecond),
	}, opts...)...))(c)
	c.Cleanup(k.Close)
	return k
}

// TestKafkaClientsOfACluster: clients that know only a standby create a topic, produce and consume
// while the leader hands over and the next one is killed. Each record is stored once, in order, and
// the consumer reads each once.
func TestKafkaClientsOfACluster(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	withKafka := func(s *config.Config) { s.Kafka.Listen = "127.0.0.1:0" }
	first, second, third := c.start(withKafka), c.start(withKafka), c.start(withKafka)
	c.up(2, first, second, third)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must.Get(kadm.NewClient(c.kafkaClient(third)).CreateTopic(ctx, 1, -1, nil, "t"))(t)
	const phases = 3
	records := sebtest.Runs(500, 150)
	progress := make(chan struct{}, phases*records)
	offsets := make([]int64, phases*records) // of acknowledged records
	producer := c.kafkaClient(third, kgo.ProducerBatchMaxBytes(4<<10), kgo.MaxBufferedRecords(50))
	var work sync.WaitGroup
	work.Go(func() {
		for i := range phases * records {
			producer.Produce(ctx, &kgo.Record{Topic: "t", Value: fmt.Appendf(nil, "%d", i)}, func(r *kgo.Record, err error) {
				check.NoErrorf(t, err, "record %d", i)
				offsets[i] = r.Offset
				progress <- struct{}{}
			})
		}
	})
	work.Go(func() {
		for _, end := range []func(){
			func() { _ = first.Close(context.Background()) },
			func() { map[bool]*server.Server{true: second, false: third}[second.Node().Leads()].Kill() },
		} {
			for range records {
				<-progress
			}
			end()
		}
	})
	consumer := c.kafkaClient(third, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	var got []*kgo.Record
	for len(got) < phases*records && ctx.Err() == nil {
		got = append(got, consumer.PollFetches(ctx).Records()...)
	}
	work.Wait()
	check.NoError(t, producer.Flush(ctx))
	for i, r := range got {
		if want := fmt.Sprint(i); r.Offset != int64(i) || string(r.Value) != want || offsets[i] != int64(i) {
			t.Fatalf("record %s at offset %d, acknowledged at %d; want %s at offset %d", r.Value, r.Offset, offsets[i], want, i)
		}
	}
	check.Equalf(t, len(got), phases*records, "records")
}

// TestAStopNamesTheNextLeader: clients that would not ask for metadata in time learn from a leader that
// stops which broker leads.
func TestAStopNamesTheNextLeader(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	withKafka := func(s *config.Config) { s.Kafka.Listen = "127.0.0.1:0" }
	first, second := c.start(withKafka), c.start(withKafka)
	c.up(1, first, second)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seldom := []kgo.Opt{kgo.MetadataMinAge(time.Hour), kgo.MetadataMaxAge(time.Hour), kgo.FetchMaxWait(100 * time.Millisecond), kgo.ConsumeTopics("t")}
	producer := c.kafkaClient(second, seldom[:2]...)
	must.Get(kadm.NewClient(producer).CreateTopic(ctx, 1, -1, nil, "t"))(t)
	consumer := c.kafkaClient(second, seldom...)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	var stored atomic.Int64
	work.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond) // more records only need more CPU time
			if producer.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr() == nil {
				stored.Add(1)
			}
		}
	})
	var read int64
	readTo := func(offset int64) {
		for read < offset && ctx.Err() == nil {
			consumer.PollFetches(ctx).EachRecord(func(r *kgo.Record) { read = r.Offset + 1 })
		}
		if read < offset {
			t.Fatalf("read to offset %d, want %d", read, offset)
		}
	}
	readTo(10)
	var stop sync.WaitGroup
	stop.Go(func() { _ = first.Close(context.Background()) })
	for second.Node().Follows() {
		readTo(read + 1)
	}
	stop.Wait()
	readTo(stored.Load() + 10)
}

func createTopic(name string) *kmsg.CreateTopicsRequest {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, -1
	r := kmsg.NewPtrCreateTopicsRequest()
	r.TimeoutMillis, r.Topics = 30_000, []kmsg.CreateTopicsRequestTopic{topic}
	return r
}

// TestAClusterWithTLS: a standby forwards requests of HTTP and Kafka clients to the leader, whose
// certificate is the same.
func TestAClusterWithTLS(t *testing.T) {
	c := newCrew(t)
	authority := testenv.NewAuthority(t)
	files := authority.Files(t, t.TempDir(), testenv.Leaf{})
	secure := func(s *config.Config) {
		s.Kafka.Listen, s.TLS.CertFile, s.TLS.KeyFile = "127.0.0.1:0", files.Cert, files.Key
	}
	first, second := c.start(secure), c.start(secure)
	c.up(1, first, second)
	if !second.Node().Follows() {
		t.Fatal("the second broker leads")
	}
	h := must.Get(client.New(second.URL(), client.Options{APIKey: second.APIKey(), TLS: authority.Trusted()}))(t)
	defer h.Close()
	if _, err := h.ProduceValues(t.Context(), "t", [][]byte{[]byte("v")}, client.ProduceOptions{}); err != nil {
		t.Error(err)
	}
	resp := must.Get(c.kafkaClient(second, kgo.DialTLSConfig(authority.Trusted())).SeedBrokers()[0].RetriableRequest(t.Context(), createTopic("k")))(t)
	if got := resp.(*kmsg.CreateTopicsResponse).Topics[0]; got.ErrorCode != 0 {
		t.Errorf("create a topic at the standby: %v", kerr.ErrorForCode(got.ErrorCode))
	}
}

// TestKafkaClientsWithCertificatesAreForwarded: a standby forwards changes of a client that it knows by
// its certificate, with the rights of that client. A user that such a client creates ends with the
// certificate.
func TestKafkaClientsWithCertificatesAreForwarded(t *testing.T) {
	c := newCrew(t)
	authority := testenv.NewAuthority(t)
	files, trusted := authority.Files(t, t.TempDir(), testenv.Leaf{Both: true}), authority.File(t, t.TempDir())
	strict := func(s *config.Config) {
		s.Kafka.Listen, s.TLS.CertFile, s.TLS.KeyFile, s.TLS.ClientCA, s.TLS.ClientAuth = "127.0.0.1:0", files.Cert, files.Key, trusted, config.ClientRequire
		s.TLS.PrincipalMapping = "RULE:^CN=([^,+]+).*$/$1/"
	}
	first, second := c.start(strict), c.start(strict)
	c.up(1, first, second)
	trusts := authority.Trusted()
	cert := authority.Client(t, testenv.Client{Name: "shop", Ends: time.Hour})
	trusts.Certificates = []tls.Certificate{cert}
	h := must.Get(client.New(first.URL(), client.Options{APIKey: first.APIKey(), TLS: trusts}))(t)
	defer h.Close()
	rules := []client.Rule{
		{Principal: "shop", Resource: "topic", Pattern: "mine", Operation: "create"}, {Principal: "shop", Resource: "cluster", Pattern: "kafka-cluster", Operation: "alter"},
	}
	must.NoError(t, h.AddRules(t.Context(), rules))
	k := must.Get(kgo.NewClient(kgo.SeedBrokers(second.KafkaAddress()), kgo.DialTLSConfig(trusts)))(t)
	defer k.Close()
	atStandby := func(r kmsg.Request) kmsg.Response {
		t.Helper()
		resp := must.Get(k.SeedBrokers()[0].RetriableRequest(t.Context(), r))(t)
		return resp
	}
	for name, want := range map[string]error{"mine": nil, "other": kerr.TopicAuthorizationFailed} {
		check.ErrorIsf(t, kerr.ErrorForCode(atStandby(createTopic(name)).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode), want, "create topic %s", name)
	}
	till := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	till.Name, till.Mechanism, till.Iterations, till.Salt, till.SaltedPassword = "till", 2, 8192, []byte("salt"), make([]byte, 64)
	users := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	users.Upsertions = append(users.Upsertions, till)
	if got := atStandby(users).(*kmsg.AlterUserSCRAMCredentialsResponse).Results[0]; got.ErrorCode != 0 {
		t.Fatalf("create a user: %v", kerr.ErrorForCode(got.ErrorCode))
	}
	if user, err := h.Token(t.Context(), "till"); err != nil || !user.Expires.Equal(cert.Leaf.NotAfter) || user.Issuer != "shop" {
		t.Errorf("%+v, %v; want the end %v", user, err, cert.Leaf.NotAfter)
	}
}

// TestKafkaAddressForOtherMachines: a Kafka listener on a loopback address is told to other brokers only
// if they are on the same machine.
func TestKafkaAddressForOtherMachines(t *testing.T) {
	for _, x := range []struct{ advertise, kafka, want string }{
		{"127.0.0.1", "", "127.0.0.1"}, {"localhost", "", "localhost"}, {"broker.example", "", ""}, {"broker.example", "kafka.example:9092", "kafka.example:9092"},
	} {
		t.Run(x.advertise+" "+x.kafka, func(t *testing.T) {
			s := newCrew(t).start(func(c *config.Config) {
				c.Advertise, c.Kafka.Listen, c.Kafka.Advertise = x.advertise, "127.0.0.1:0", x.kafka
			})
			want := x.want
			if _, port, _ := net.SplitHostPort(s.KafkaAddress()); want != "" && x.kafka == "" {
				want = net.JoinHostPort(x.want, port)
			}
			check.Equal(t, s.Cluster().Self().Kafka, want)
		})
	}
}
