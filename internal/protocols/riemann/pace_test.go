package riemann

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/test/must"
)

// TestPace: groups may be faster than the rate for the time of a burst, and not longer, however long
// the rest before them was.
func TestPace(t *testing.T) {
	p, now := pace{rate: 1 << 20}, time.Now()
	const size = 64 << 10 // 1/16 s
	for range 2 {
		start, total := now, time.Duration(0)
		for i := range 1000 {
			rest := p.spend(now, size)
			total += time.Second / 16
			must.Equalf(t, now.Add(rest).Sub(start), max(0, (total-paceBurst)), "group %d may be followed after", i)
			now = now.Add(rest)
		}
		now = now.Add(time.Hour)
	}
}

// TestSmallGroups: a datagram after a rest is submitted at once, and those that follow it together.
func TestSmallGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := quietGathered()
		none := func() bool { return false }
		for i, want := range []time.Duration{0, paceGroup, paceGroup} {
			start := time.Now()
			for range 3 {
				_ = g.add(t.Context(), []byte{0x32, 9}, "")
			}
			g.wait(t.Context(), none)
			if took := time.Since(start); took != want || g.cost != 0 {
				t.Errorf("group %d waited for %v, cost %d; want %v, 0", i, took, g.cost, want)
			}
		}
		_ = g.add(t.Context(), nil, "")
		waits := time.Now().Add(paceGroup / 2)
		g.wait(t.Context(), func() bool { return !time.Now().Before(waits) })
		if !time.Now().Equal(waits) || g.cost == 0 {
			t.Errorf("the next datagram is read %v late, cost %d", time.Since(waits), g.cost)
		}
		close(g.ending)
		g.wait(t.Context(), none)
		if !time.Now().Equal(waits) || g.cost != 0 {
			t.Errorf("the server drains, but the group waits for %v", time.Since(waits))
		}
	})
}

// TestFloodOfInvalidDatagrams: datagrams without valid events count towards the rate as well.
func TestFloodOfInvalidDatagrams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, start := quietGathered(), time.Now()
		for _, msg := range [][]byte{{}, bytes.Repeat([]byte{0x0b}, DatagramMax), make([]byte, DatagramMax+1), asking("true")} {
			begin := time.Now()
			for sent := int64(0); sent < 4*g.rate; sent += datagramCost + int64(len(msg)) {
				_ = g.add(t.Context(), msg, "")
				g.wait(t.Context(), func() bool { return true })
			}
			if took := time.Since(begin); took < 4*time.Second-paceBurst-time.Second/4 {
				t.Errorf("four times the rate of datagrams with %d bytes takes %v", len(msg), took)
			}
		}
		if took := time.Since(start); took > 17*time.Second {
			t.Errorf("datagrams wait for %v, want 16 s", took)
		}
	})
}

// quietGathered submits nothing, because it has no broker.
func quietGathered() *gathered {
	class := budget.New(64 << 20).Class(budget.Produce)
	s := &Server{produceClass: class, ending: make(chan struct{}), log: slog.New(slog.DiscardHandler), met: newMeters(metrics.NewSet())}
	return &gathered{client: client{Server: s}, pace: newPace(), buf: make([]byte, groupCost+DatagramMax+1)}
}
