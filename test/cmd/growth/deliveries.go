package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// deliveryRows are the rows of deliveries, with more messages than the broker delivers in the time.
func (o *options) deliveryRows() (rows []row) {
	for size := range strings.FieldsSeq("1x0ms 1x10ms 1x100ms 1x1000ms 300x100ms 1x1000ms/1000") {
		d := deliveries{load: load{mention: 1, entities: 50_000}}
		_, _ = fmt.Sscanf(size, "%dx%dms/%d", &d.triggers, &d.delay, &d.concurrency)
		r := row{section: "deliveries", size: size, limit: "256MiB", folder: true, args: []string{"--webhook-targets", "127.0.0.0/8"}}
		if d.concurrency > 0 {
			r.limit, r.afterOnly = "1GiB", true
		} else if d.delay >= 1000 {
			d.entities = 5000
		}
		d.delay *= time.Millisecond
		r.run = func(ctx context.Context, b *broker, to *result) error { return o.deliveries(ctx, b, to, d) }
		rows = append(rows, r)
	}
	return rows
}

// deliveries are messages of triggers to a receiver that answers after a delay. concurrency is that
// of the triggers; 0: the broker's choice.
type deliveries struct {
	load
	delay       time.Duration
	concurrency int
}

// receiver answers after a delay once it is open, and before with 503.
type receiver struct {
	delay                 time.Duration
	open                  atomic.Bool
	got, connections, now atomic.Int64
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	_, _ = io.Copy(io.Discard, q.Body)
	if !r.open.Load() {
		w.Header().Set("Retry-After", "1") // the broker sends nothing meanwhile
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	r.now.Add(1)
	defer r.now.Add(-1)
	time.Sleep(r.delay)
	r.got.Add(1)
}

// deliveries measures deliveries of firings that are all recorded, after the broker has adapted to
// the receiver.
func (o *options) deliveries(ctx context.Context, b *broker, to *result, d deliveries) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	r := &receiver{delay: d.delay}
	server := &http.Server{Handler: r, ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			r.connections.Add(1)
		}
	}}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	deliver := fmt.Sprintf(`,"deliver":{"url":"http://%s/","secrets":["whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"]`, listener.Addr())
	if d.concurrency > 0 {
		deliver += fmt.Sprint(`,"concurrency":`, d.concurrency)
	}
	err = each(d.triggers, 4, func(i int) error { return b.putTrigger(ctx, fmt.Sprint("t", i), fmt.Sprint("e", i), deliver+"}") })
	if err != nil {
		return err
	}
	if err := b.sendEvents(ctx, "events", d.load); err != nil {
		return err
	}
	if recorded := o.recorded(ctx, b, d.entities); recorded < d.entities {
		return fmt.Errorf("%d of %d firings recorded after %v", recorded, d.entities, o.bound)
	}
	o.caughtUp(ctx, b, d.entities)
	r.open.Store(true)
	wait := func(n int, most time.Duration) (inFlight float64) {
		ticks := 0.0
		for end := time.Now().Add(most); ctx.Err() == nil && time.Now().Before(end) && int(r.got.Load()) < n; ticks++ {
			pause(ctx, 20*time.Millisecond)
			inFlight += float64(r.now.Load())
		}
		return inFlight / max(ticks, 1)
	}
	wait(1, o.bound)
	wait(d.entities/4, 5*time.Second+20*d.delay)
	got, connections, cpu, began := r.got.Load(), r.connections.Load(), b.cpu(), time.Now()
	inFlight := wait(d.entities*19/20, o.deliver)
	took := time.Since(began)
	sent := int(r.got.Load() - got)
	to.number("delivered/s", "%.0f", float64(sent)/took.Seconds())
	to.each("CPU µs/delivery", b.cpu()-cpu, sent)
	to.number("new connections per delivery", "%.3f", float64(r.connections.Load()-connections)/float64(max(sent, 1)))
	to.number("in flight", "%.0f", inFlight)
	to.number("resident MiB", "%.0f", float64(b.resident())/(1<<20))
	to.text("counted", "%d of %d in %.1f s", sent, d.entities, took.Seconds())
	return ctx.Err()
}
