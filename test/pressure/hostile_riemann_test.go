package pressure

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/sebtest"
)

// riemannFrame is a message with a declared length.
func riemannFrame(length uint32, b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, length), b...)
}

// riemannMessage is a message of n events that have a description of a number of bytes.
func riemannMessage(n, description int) []byte {
	e := append([]byte("\x22\x01h\x1a\x01s\x2a"), binary.AppendUvarint(nil, uint64(description))...)
	e = append(e, strings.Repeat("x", description)...)
	e = append(append([]byte{0x32}, binary.AppendUvarint(nil, uint64(len(e)))...), e...)
	b := bytes.Repeat(e, n)
	return riemannFrame(uint32(len(b)), b)
}

// riemannKinds are clients that mean harm. Each function writes until the connection ends.
var riemannKinds = []struct {
	name  string
	most  int // number of attackers; 0: any
	begin func(net.Conn) error
}{
	{"that say nothing", 0, func(net.Conn) error { return nil }},
	{"of an incomplete length", 0, sending([]byte{0, 0, 0})},
	{"announcing 4 GiB", 0, sending(riemannFrame(1<<32-1, nil))},
	{"announcing 1 MiB", 0, sending(riemannFrame(1<<20, make([]byte, 1000)))},
	{"with 500,000 empty events", 0, forever(riemannFrame(1_000_000, bytes.Repeat([]byte{0x32, 0}, 500_000)))},
	// Clients with valid messages keep their slots.
	{"that fill messages and read no answers", 10, forever(riemannMessage(10, 90_000))},
	{"with the densest events", 10, forever(riemannFrame(20_000, bytes.Repeat([]byte{0x32, 0}, 10_000)))},
}

// forever writes b until the connection ends. It reads nothing.
func forever(b []byte) func(net.Conn) error {
	return func(c net.Conn) error {
		for {
			if _, err := c.Write(b); err != nil {
				return err
			}
		}
	}
}

// TestHostileRiemannClients: harmful clients occupy their slots and the memory of the budget. The
// broker stays within 64 MiB and serves others.
func TestHostileRiemannClients(t *testing.T) {
	beside(t)
	address := freeAddress(t)
	b := start(t, "--batch-wait-time", "0", "--kafka-listen=", "--riemann-listen", address, "--riemann-patience", "1s")
	alone := riemannVisit(t, b, address)
	for _, kind := range riemannKinds {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		many := b.harmful("riemann")
		if kind.most > 0 {
			many = kind.most
		}
		for range many {
			wg.Go(func() { riemannHarm(ctx, address, kind.begin) })
		}
		sebtest.Eventually(t, "attackers are connected", func() bool { return b.metric("seb_riemann_connections") >= 1 })
		loaded := riemannVisit(t, b, address)
		b.produceEventually(1) // over HTTP
		open := b.metric("seb_riemann_connections")
		t.Logf("%d %s: %.0f held; %d messages, each on a new connection, took %s, without attack %s", many, kind.name, open, visits,
			loaded.Round(time.Millisecond), alone.Round(time.Millisecond))
		if open > float64(b.openMax("riemann")) {
			t.Errorf("%s: %.0f connections", kind.name, open)
		}
		cancel()
		wg.Wait()
	}
	b.within(limit)
}

// riemannHarm connects, begins, stays until it is disconnected, and repeats.
func riemannHarm(ctx context.Context, address string, begin func(net.Conn) error) {
	for ctx.Err() == nil {
		conn, err := net.DialTimeout("tcp", address, time.Minute)
		if err != nil {
			pause(ctx, 20*time.Millisecond)
			continue
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		if begin(conn) == nil {
			_, _ = io.Copy(io.Discard, conn)
		}
		stop()
		_ = conn.Close()
		pause(ctx, 200*time.Millisecond)
	}
}

// riemannVisit sends messages, each on a new connection, until they are stored, and returns the time.
func riemannVisit(t *testing.T, b *broker, address string) time.Duration {
	t.Helper()
	began := time.Now()
	for range visits {
		sebtest.Eventually(t, "a message is stored", func() bool {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				return false
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			answer := make([]byte, 6)
			if _, err := conn.Write(riemannMessage(1, 10)); err != nil {
				return false
			}
			_, err = io.ReadFull(conn, answer)
			return err == nil && string(answer[4:]) == "\x10\x01"
		})
	}
	return time.Since(began)
}
