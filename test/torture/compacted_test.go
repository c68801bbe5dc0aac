package torture

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/history"
)

const (
	// keptTopic is compacted and has one writer.
	keptTopic = "kept"
	// keptRecords bounds the records of an append to it.
	keptRecords = 40
)

// keep repeatedly writes keys, one append after the other, until ctx ends.
func (u *user) keep(ctx context.Context, k *ledger) {
	part := int32(0)
	for ctx.Err() == nil {
		recs := records(k, 1+u.rng.IntN(keptRecords))
		call, cancel := u.timeout(context.WithoutCancel(ctx))
		sent := time.Now()
		placed, err := u.api.Produce(call, keptTopic, recs, client.ProduceOptions{Partition: &part})
		cancel()
		switch is := u.judge(placed, err, int64(len(recs)), part); is.Is {
		case history.OK:
			k.note(acked{is.At, k.next, len(recs), sent})
			u.r.counts.add("appends to the compacted topic", 1)
		case history.Unknown:
			k.noteUnknown(k.next, len(recs))
		}
		k.next += len(recs)
		u.rest(ctx, err != nil)
	}
}

// readKept reads the compacted topic and checks it.
func (r *run) readKept(ctx context.Context, how string) {
	if !slices.Contains(r.p.clients, compactedWriter) || r.failed.Load() {
		return
	}
	u := r.newUser(client.Options{RetryTime: calmTime})
	defer u.transport.CloseIdleConnections()
	j := newJudge(&r.kept, 0)
	for rec, err := range u.api.Records(ctx, keptTopic, client.ReadOptions{Offset: client.Earliest, MaxBytes: 64 << 10}) {
		if err != nil {
			r.fault("cannot read the compacted topic %s: %v", how, err)
			return
		}
		j.see(rec)
	}
	j.end(0, time.Time{})
	if len(j.faults) > 0 {
		r.fault("%s the compacted topic: %v", how, j.faults)
	}
	r.counts.add("records read from the compacted topic", int64(j.count))
}

// topics returns the topics of a run with their settings.
func (r *run) topics() map[string]client.TopicSpec {
	all := map[string]client.TopicSpec{topic: {Partitions: r.p.parts}}
	if slices.Contains(r.p.clients, compactedWriter) {
		all[keptTopic] = client.TopicSpec{Partitions: 1, Settings: map[string]string{"cleanup-policy": "compact"}}
	}
	if slices.Contains(r.p.clients, rights) {
		all[rightsTopic] = client.TopicSpec{Partitions: 1}
	}
	return all
}

// make creates missing topics and reports whether all exist.
func (u *user) make(ctx context.Context, all map[string]client.TopicSpec) bool {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if _, err := u.api.CreateTopic(ctx, name, all[name]); err != nil && !errors.Is(err, client.ErrTopicExists) {
			return false
		}
	}
	return true
}
