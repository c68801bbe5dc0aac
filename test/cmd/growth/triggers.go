package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sebbroker/seb/api"
)

// triggerRows are the rows of events and of deadlines.
func (o *options) triggerRows() (rows []row) {
	for size := range strings.FieldsSeq("1of1x10000 1of1x100000 1of1x1000000 10of10x50000 10of10x100000 50of50x10000 100of100x10000 " +
		"100of100x100000 3of100x10000 3of100x1000000") {
		var l load
		_, _ = fmt.Sscanf(size, "%dof%dx%d", &l.mention, &l.triggers, &l.entities)
		rows = append(rows, row{
			section: "triggers", size: size, limit: "256MiB", folder: true, afterOnly: l.mention*l.entities > 5*million,
			run: func(ctx context.Context, b *broker, to *result) error { return o.events(ctx, b, to, l) },
		})
	}
	for _, n := range []int{1000, 10_000, 100_000, 5000} {
		r := row{section: "deadlines", size: fmt.Sprint(n), limit: "256MiB", folder: n != 5000}
		if !r.folder {
			r.size = "s3/" + r.size
		}
		r.run = func(ctx context.Context, b *broker, to *result) error { return o.deadlines(ctx, b, to, n) }
		rows = append(rows, r)
	}
	return rows
}

// load is a number of triggers, of which some mention the event of an entity, and of entities.
type load struct{ mention, triggers, entities int }

// event returns the event of entity i. The names of entities are in no order, as random IDs.
func (l *load) event(i int) string {
	return fmt.Sprintf(`{"event":"e%d","entity_id":"user-%08x"}`, i%(l.triggers/l.mention), uint32(i)*2_654_435_761)
}

// events measures the cost of triggers that wait for events which do not come, another one for each
// trigger. The cost of the same events in a topic without triggers is subtracted. Both topics have
// no key index.
func (o *options) events(ctx context.Context, b *broker, to *result, l load) error {
	for _, topic := range []string{"plain", "events"} {
		err := b.must(ctx, call{method: http.MethodPut, path: "/topic?topic-name=" + topic, body: `{"settings":{"timestamp-type":"append"}}`})
		if err != nil {
			return err
		}
	}
	cpu := b.cpu()
	if err := b.sendEvents(ctx, "plain", l); err != nil {
		return err
	}
	plain := b.cpu() - cpu
	err := each(l.triggers, 4, func(i int) error {
		return b.putTrigger(ctx, fmt.Sprint("t", i), fmt.Sprintf("e%d THEN (NOT x%d WITHIN %d days)", i/l.mention, i, 7+i), "")
	})
	if err != nil {
		return err
	}
	cpu = b.cpu()
	if err := b.sendEvents(ctx, "events", l); err != nil {
		return err
	}
	read := o.caughtUp(ctx, b, l.entities)
	alone, instances := max(b.cpu()-cpu-plain, time.Second/100), float64(max(read*l.mention, 1))
	to.number("CPU µs/event", "%.1f", float64(alone.Microseconds())/float64(max(read, 1)))
	to.number("µs/(event x trigger)", "%.2f", float64(alone.Microseconds())/instances)
	to.number("events/s per core", "%.0f", float64(read)/alone.Seconds())
	to.each("without triggers, µs/event", plain, l.entities)
	to.number("resident MiB", "%.0f", float64(b.resident())/(1<<20))
	to.unfinished("events", read, l.entities, o.bound)
	bytes, err := b.restart(filepath.Join(b.dir, "data"), filepath.Join(b.bucket, "s0000", "view"))
	if err != nil {
		return err
	}
	to.number("bytes per instance", "%.0f", float64(bytes)/instances)
	read = o.caughtUp(ctx, b, l.entities)
	to.number("rebuild CPU s", "%.2f", b.cpu().Seconds())
	to.number("rebuild resident MiB", "%.0f", float64(b.resident())/(1<<20))
	to.unfinished("rebuild", read, l.entities, o.bound)
	return ctx.Err()
}

// unfinished says how far a row came that gave up.
func (r *result) unfinished(what string, got, want int, after time.Duration) {
	if got < want {
		r.text("unfinished "+what, "%d of %d, gave up after %v", got, want, after)
	}
}

// putTrigger creates a trigger. more are further members of its definition.
func (b *broker) putTrigger(ctx context.Context, id, expr, more string) error {
	return b.must(ctx, call{method: http.MethodPut, path: "/triggers/" + id, body: fmt.Sprintf(`{"expr":%q%s}`, expr, more)})
}

// sendEvents sends the events of all entities, two requests at the same time.
func (b *broker) sendEvents(ctx context.Context, topic string, l load) error {
	const perRequest = 1000
	return each((l.entities+perRequest-1)/perRequest, 2, func(i int) error {
		return b.must(ctx, l.call(topic, i*perRequest, min(l.entities, (i+1)*perRequest)))
	})
}

// call is a request with the events of some entities.
func (l *load) call(topic string, from, to int) call {
	var body strings.Builder
	for i := from; i < to; i++ {
		body.WriteString(l.event(i) + "\n")
	}
	return call{method: http.MethodPost, path: "/event?topic-name=" + topic, body: body.String(), header: []string{"Content-Type", api.NDJSON}}
}

// caughtUp waits until all triggers have read n events, or for the bound, and returns how many they
// have.
func (o *options) caughtUp(ctx context.Context, b *broker, n int) int {
	var read, lag int
	o.until(ctx, func() bool {
		read, lag = int(b.metric(ctx, "seb_triggers_events_total")), int(b.metric(ctx, "seb_triggers_lag_records"))
		return read >= n && lag == 0 && b.metric(ctx, "seb_triggers_(?:late|backfilling)") == 0
	})
	return max(min(read, n-lag), 0)
}

// recorded waits until n firings are in the log, or for the bound, and returns how many are.
func (o *options) recorded(ctx context.Context, b *broker, n int) (got int) {
	o.until(ctx, func() bool {
		got = int(b.metric(ctx, "seb_triggers_firings_recorded_total"))
		return got >= n
	})
	return got
}

// until waits for the broker, but not longer than the bound.
func (o *options) until(ctx context.Context, done func() bool) {
	for end := time.Now().Add(o.bound); !done() && ctx.Err() == nil && time.Now().Before(end); {
		pause(ctx, 100*time.Millisecond)
	}
}

// restart stops the broker, removes folders and starts it. It returns the size that the database of
// triggers had.
func (b *broker) restart(without ...string) (bytes int64, err error) {
	if code := b.process.Stop(); code != 0 {
		return 0, fmt.Errorf("exit code %d: %s", code, b.process.Log())
	}
	info, err := os.Stat(filepath.Join(b.dir, "data", "view", "triggers.db"))
	if err != nil {
		return 0, err
	}
	for _, dir := range without { // the copies of the database are in the bucket
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return info.Size(), errors.Join(err, b.start())
}

// deadlines measures n firings whose deadlines are at the same time.
func (o *options) deadlines(ctx context.Context, b *broker, to *result, n int) error {
	wait := 30*time.Second + time.Duration(n)*time.Millisecond // for the events to be read
	if err := b.putTrigger(ctx, "t", fmt.Sprintf("e0 THEN (NOT x0 WITHIN %.0f seconds)", wait.Seconds()), ""); err != nil {
		return err
	}
	l := load{1, 1, n}
	if err := b.must(ctx, l.call("events", 0, n)); err != nil { // one request: one append time
		return err
	}
	body, err := b.ask(ctx, call{method: http.MethodPost, path: "/event", body: `{"event":"last","entity_id":"u"}`})
	var last api.EventStored
	if err = errors.Join(err, json.Unmarshal(body, &last)); err != nil {
		return err
	}
	due := last.Time.Add(wait)
	if read := o.caughtUp(ctx, b, n+1); time.Now().After(due) {
		return fmt.Errorf("%d of %d events read before their deadlines", read, n+1)
	}
	pause(ctx, time.Until(due.Add(-time.Second)))
	const putsMetric = `seb_store_put_seconds_count(?:{[^}]*})?`
	cpu, puts := b.cpu(), b.metric(ctx, putsMetric)
	recorded := o.recorded(ctx, b, n)
	to.number("last recorded after s", "%.1f", time.Since(due).Seconds())
	o.caughtUp(ctx, b, n+1)
	to.each("CPU µs/firing", b.cpu()-cpu, recorded)
	to.number("PUTs", "%.0f", b.metric(ctx, putsMetric)-puts)
	to.number("resident MiB", "%.0f", float64(b.resident())/(1<<20))
	to.unfinished("firings", recorded, n, o.bound)
	bytes, err := b.restart()
	to.number("database MB", "%.1f", float64(bytes)/million)
	return err
}
