package pressure

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
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

	"github.com/sebbroker/seb/test/testenv"
)

// kafkaMax is above what a broker of 64 MiB has of places for clients of Kafka: a quarter of those for connections.
const kafkaMax = 50

// visits is how many clients with the key come while others do harm.
const visits = 3

// harmful is how many do. A place is for half a second at least, so that those who come wait for all who came before.
func harmful() int {
	if *idle < 1000 {
		return 60
	}
	return 1000
}

// kafkaHead begins a request of so many bytes.
func kafkaHead(size int, key kmsg.Key, version int16) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(size))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	return binary.BigEndian.AppendUint32(b, 7)
}

// kafkaAsk sends a request and reads its answer, away.
func kafkaAsk(conn net.Conn, r kmsg.Request) error {
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	r.SetVersion(1)
	if _, err := conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, r, 1)); err != nil {
		return err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(size[:])))
	return err
}

// kafkaLogin shows the key.
func kafkaLogin(conn net.Conn) error {
	hand := kmsg.NewPtrSASLHandshakeRequest()
	hand.Mechanism = "PLAIN"
	auth := kmsg.NewPtrSASLAuthenticateRequest()
	auth.SASLAuthBytes = []byte("\x00u\x00" + key)
	return errors.Join(kafkaAsk(conn, hand), kafkaAsk(conn, auth))
}

// TestKafkaClientsThatMeanHarm: strangers that say nothing, announce what they never send, or begin handshakes of TLS that they do not
// end, hold no more than their places, and keep away nobody who has the key; nor do clients with the key that announce large requests.
func TestKafkaClientsThatMeanHarm(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "TLS"}[secure], func(t *testing.T) {
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
				many := harmful()
				if kind.most > 0 {
					many = kind.most
				}
				for range many {
					wg.Go(func() { v.harm(ctx, kind.raw, kind.begin) })
				}
				for end := time.Now().Add(time.Minute); v.metric("seb_kafka_connections") < 4 && time.Now().Before(end); {
					<-time.After(time.Millisecond)
				}
				crowd := v.visit()
				open := v.metric("seb_kafka_connections")
				t.Logf("%d %s: %.0f are held; %d records, each by a client that connects anew, took %s, alone %s", many, kind.name, open, visits,
					crowd.Round(time.Millisecond), alone.Round(time.Millisecond))
				if open > kafkaMax {
					t.Errorf("%s: %.0f connections", kind.name, open)
				}
				cancel()
				wg.Wait()
			}
			v.within(limit)
		})
	}
}

// kafkaVictim is a broker that clients of Kafka do harm to.
type kafkaVictim struct {
	*broker
	tls     *tls.Config // nil: plain text
	address string
}

// listens is where it listens for clients of Kafka.
func (v *kafkaVictim) listens() string {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for line := range strings.Lines(v.Log()) {
			if address, ok := testenv.KafkaAddress(line); ok && strings.Contains(line, " pprof=") { // the line is whole
				return address
			}
		}
	}
	v.t.Fatalf("no listener in\n%s", v.Log())
	return ""
}

type harm struct {
	name  string
	raw   bool // below TLS
	begin func(net.Conn) error
	most  int // of them; 0: any number
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
		{name: "strangers with a request of 100 MB", begin: sending(kafkaHead(100_000_000, kmsg.Produce, 9))},
		{name: "strangers whose ApiVersions has 100 MB", begin: sending(kafkaHead(100_000_000, kmsg.ApiVersions, 3))},
		{name: "strangers that announce 64 KiB", begin: sending(append(kafkaHead(64<<10, kmsg.SASLAuthenticate, 1), make([]byte, 1000)...))},
		{name: "strangers that begin a length", begin: sending([]byte{0, 0})},
		// Each has the memory for a second before who comes gets it; more of them than there are places would keep others out.
		{name: "clients with the key that announce 7 MiB", most: 5, begin: func(c net.Conn) error {
			if err := kafkaLogin(c); err != nil {
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

// harm connects, begins, and stays until it is sent away; then it comes again.
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

// visit has clients, one after the other, produce a record each, and returns how long that took.
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
		if err != nil {
			v.t.Fatal(err)
		}
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
