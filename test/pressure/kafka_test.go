package pressure

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/sebbroker/seb/test/kafkatest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// visits is the number of authenticated clients during the attack.
const visits = 3

// harmful returns the number of attackers, more than there are slots. A slot is taken for at least
// half a second, so new clients wait for all before them.
func (b *broker) harmful(listener string) int {
	if *idle < 1000 {
		return b.openMax(listener) + 30
	}
	return 1000
}

// kafkaHead returns the head of a request of a declared size.
func kafkaHead(size int, key kmsg.Key, version int16) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(size))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	return binary.BigEndian.AppendUint32(b, 7)
}

// TestHostileKafkaClients: unauthenticated clients that are silent, announce requests without
// sending them, or start TLS handshakes without finishing them, occupy only their slots. They do
// not keep authenticated clients away. Neither do authenticated clients that announce large
// requests.
func TestHostileKafkaClients(t *testing.T) {
	beside(t)
	for _, secure := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "TLS"}[secure], func(t *testing.T) {
			beside(t)
			var args []string
			var trusted *tls.Config
			if secure {
				authority := testenv.NewAuthority(t)
				files := authority.Files(t, t.TempDir(), testenv.Leaf{})
				args = []string{"--tls-cert", files.Cert, "--tls-key", files.Key, "--tls-listeners", "kafka"}
				trusted = authority.Trusted()
			}
			v := &kafkaVictim{broker: start(t, append(args, "--batch-wait-time", "0", "--kafka-listen", "127.0.0.1:0")...), tls: trusted}
			v.address = v.listens()
			alone := v.visit()
			for _, kind := range v.kinds() {
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				many := v.harmful("kafka")
				if kind.most > 0 {
					many = kind.most
				}
				for range many {
					wg.Go(func() { v.harm(ctx, kind.raw, kind.begin) })
				}
				sebtest.Eventually(t, "attackers are connected", func() bool { return v.metric("seb_kafka_connections") >= 4 })
				loaded := v.visit()
				open := v.metric("seb_kafka_connections")
				t.Logf("%d %s: %.0f held; %d records, each on a new connection, took %s, without attack %s", many, kind.name, open, visits,
					loaded.Round(time.Millisecond), alone.Round(time.Millisecond))
				if open > float64(v.openMax("kafka")) {
					t.Errorf("%s: %.0f connections", kind.name, open)
				}
				cancel()
				wg.Wait()
			}
			v.within(limit)
		})
	}
}

// kafkaVictim is a broker under attack by Kafka clients.
type kafkaVictim struct {
	*broker
	tls     *tls.Config // nil: plain text
	address string
}

// listens returns its Kafka address.
func (v *kafkaVictim) listens() (address string) {
	sebtest.Eventually(v.t, "the log names the Kafka listener", func() (ok bool) {
		for line := range strings.Lines(v.Log()) {
			// A line with pprof is complete.
			if address, ok = testenv.KafkaAddress(line); ok && strings.Contains(line, " pprof=") {
				return true
			}
		}
		return false
	})
	return address
}

type harm struct {
	name  string
	raw   bool // below TLS
	begin func(net.Conn) error
	most  int // number of attackers; 0: any
}

func sending(b []byte) func(net.Conn) error {
	return func(c net.Conn) error {
		_, err := c.Write(b)
		return err
	}
}

func (v *kafkaVictim) kinds() []harm {
	list := []harm{
		{name: "that say nothing", raw: true, begin: func(net.Conn) error { return nil }},
		{name: "unauthenticated, request of 100 MB", begin: sending(kafkaHead(100_000_000, kmsg.Produce, 9))},
		{name: "unauthenticated, ApiVersions of 100 MB", begin: sending(kafkaHead(100_000_000, kmsg.ApiVersions, 3))},
		{name: "unauthenticated, announcing 64 KiB", begin: sending(append(kafkaHead(64<<10, kmsg.SASLAuthenticate, 1), make([]byte, 1000)...))},
		{name: "unauthenticated, incomplete length", begin: sending([]byte{0, 0})},
		// Each holds memory for a second before the next client gets it. More of them than slots
		// would keep others out.
		{name: "authenticated, announcing 7 MiB", most: 5, begin: func(c net.Conn) error {
			if err := (&kafkatest.Conn{Conn: c}).Login(v.t.Context(), key); err != nil {
				return err
			}
			return sending(append(kafkaHead(7<<20, kmsg.Produce, 9), make([]byte, 100<<10)...))(c)
		}},
	}
	if v.tls != nil {
		hello := []byte{22, 3, 1, 0x3f, 0xff, 1, 0, 0x3f, 0xfb}
		list = append(list,
			harm{name: "handshakes that do not begin", raw: true, begin: sending([]byte{22, 3, 1})},
			harm{name: "handshakes that stop", raw: true, begin: sending(append(hello, make([]byte, 16_000)...))},
			harm{name: "plain requests", raw: true, begin: sending(kafkaHead(100, kmsg.ApiVersions, 3))})
	}
	return list
}

// harm connects, begins, stays until it is disconnected, and repeats.
func (v *kafkaVictim) harm(ctx context.Context, raw bool, begin func(net.Conn) error) {
	for ctx.Err() == nil {
		conn, err := net.DialTimeout("tcp", v.address, time.Minute)
		if err != nil {
			continue
		}
		if v.tls != nil && !raw {
			config := v.tls.Clone()
			config.ServerName = "127.0.0.1"
			conn = tls.Client(conn, config)
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		if begin(conn) == nil {
			_ = conn.SetDeadline(time.Time{})
			_, _ = io.Copy(io.Discard, conn)
		}
		stop()
		_ = conn.Close()
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// visit runs clients that produce a record each, one after the other, and returns the time.
func (v *kafkaVictim) visit() time.Duration {
	v.t.Helper()
	began := time.Now()
	for i := range visits {
		opts := []kgo.Opt{
			kgo.SeedBrokers(v.address), kgo.SASL(scram.Auth{User: "u", Pass: key}.AsSha256Mechanism()), kgo.AllowAutoTopicCreation(),
			kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }), kgo.MetadataMinAge(20 * time.Millisecond),
		}
		if v.tls != nil {
			opts = append(opts, kgo.DialTLSConfig(v.tls))
		}
		c, err := kgo.NewClient(opts...)
		must.NoError(v.t, err)
		ctx, cancel := context.WithTimeout(v.t.Context(), 2*time.Minute)
		err = c.ProduceSync(ctx, &kgo.Record{Topic: "visits", Value: fmt.Append(nil, i)}).FirstErr()
		cancel()
		c.Close()
		if err != nil {
			v.t.Fatalf("visit %d: %v\n%s", i, err, v.Log())
		}
	}
	return time.Since(began)
}
