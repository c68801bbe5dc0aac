package pressure

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/sebtest"
)

// TestSlowClients: many clients that send a byte now and then, and reconnect when they are
// disconnected, do not keep another client away.
func TestSlowClients(t *testing.T) {
	beside(t)
	post := "POST /records?topic-name=slow HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nAccept: */*\r\nContent-Length: 10000\r\n"
	b := start(t, "--batch-wait-time", "0")
	alone := b.timed()
	for _, kind := range []struct {
		name, begin string
		once        bool
	}{
		{"heads", post + "X-Slow: ", false},
		{"bodies without the key", post + "\r\n", false},
		{"bodies", post + "Authorization: Bearer " + key + "\r\n\r\n", true},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range *idle {
			wg.Go(func() { b.sendSlowly(ctx, kind.begin, time.Duration(i)*time.Second/time.Duration(*idle), kind.once) })
		}
		ended := b.waitUntilFull()
		loaded := b.timed()
		t.Logf("%d slow %s: an acknowledgement took at most %s, without them %s; %.0f connections were evicted",
			*idle, kind.name, loaded.Round(time.Millisecond), alone.Round(time.Millisecond), b.metric("seb_http_connections_evicted_total")-ended)
		cancel()
		wg.Wait()
	}
	b.within(limit)
}

// timed produces a few records, each on a separate connection, and returns the longest time.
func (b *broker) timed() time.Duration {
	b.t.Helper()
	var took []time.Duration
	for i := range 8 {
		begin := time.Now()
		b.produceEventually(i)
		took = append(took, time.Since(begin))
	}
	return slices.Max(took)
}

// waitUntilFull waits until all slots are taken and returns the number of evicted connections so
// far.
func (b *broker) waitUntilFull() (ended float64) {
	b.t.Helper()
	ended = b.metric("seb_http_connections_evicted_total")
	held := b.metric("seb_http_connections_held_total")
	sebtest.Eventually(b.t, "the slots are taken", func() bool { return b.metric("seb_http_connections_held_total") != held })
	return ended
}

// sendSlowly connects and sends a byte now and then. It reconnects when its connection ends, unless
// once is set.
func (b *broker) sendSlowly(ctx context.Context, begin string, after time.Duration, once bool) {
	pause(ctx, after)
	for ctx.Err() == nil {
		conn, err := net.DialTimeout("tcp", b.addr, 10*time.Second)
		if err == nil {
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			_, err = io.WriteString(conn, begin)
			for err == nil {
				pause(ctx, 500*time.Millisecond)
				_, err = fmt.Fprint(conn, "x")
			}
			stop()
			conn.Close()
		}
		if once {
			return
		}
		pause(ctx, time.Second)
	}
}
