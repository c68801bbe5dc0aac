package campaign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/history"
)

const (
	// keptTopic is compacted and has one writer.
	keptTopic = "kept"
	keptKeys  = 40
	// keptRecords bounds the records of an append to it.
	keptRecords = 40
)

// kept is the outcomes of the records of the compacted topic, by number. Only its client uses it,
// and the checks after that client has ended.
type kept struct {
	client int32
	of     []keptRecord
}

type keptRecord struct {
	is string // an outcome of package history
	at int64  // if acknowledged
}

func keptKey(seq int64) []byte { return fmt.Appendf(nil, "key-%d", seq%keptKeys) }

// keep repeatedly writes keys, one append after the other, until ctx ends.
func (u *user) keep(ctx context.Context, k *kept) {
	k.client = u.id
	part := int32(0)
	for ctx.Err() == nil {
		recs := make([]record.Record, 1+u.rng.IntN(keptRecords))
		for i := range recs {
			seq := int64(len(k.of) + i)
			recs[i] = record.Record{Key: keptKey(seq), Value: history.Value(u.id, seq)}
		}
		call, cancel := u.timeout(context.WithoutCancel(ctx))
		placed, err := u.api.Produce(call, keptTopic, recs, client.ProduceOptions{Partition: &part})
		cancel()
		is := u.judge(placed, err, int64(len(recs)), part)
		for i := range recs {
			k.of = append(k.of, keptRecord{is.Is, is.At + int64(i)})
		}
		if is.Is == history.OK {
			u.r.counts.add("appends to the compacted topic", 1)
		}
		u.rest(ctx, err != nil)
	}
}

// found is a record that was read.
type found struct {
	at  int64
	seq int64
}

// judge checks the records of a read of the whole topic: each was sent and not rejected, and is at
// its acknowledged offset. A missing record has a newer one of its key.
func (k *kept) judge(got []found) error {
	newest := map[int64]int64{} // number by key
	present := map[int64]bool{}
	for i, f := range got {
		switch {
		case f.seq < 0 || f.seq >= int64(len(k.of)):
			return fmt.Errorf("at %d is record %d of %d", f.at, f.seq, len(k.of))
		case k.of[f.seq].is == history.Rejected:
			return fmt.Errorf("offset %d holds record %d, which was rejected", f.at, f.seq)
		case k.of[f.seq].is == history.OK && k.of[f.seq].at != f.at:
			return fmt.Errorf("record %d is at %d but was acknowledged at %d", f.seq, f.at, k.of[f.seq].at)
		case i > 0 && (f.at <= got[i-1].at || f.seq <= got[i-1].seq):
			return fmt.Errorf("record %d at %d comes after record %d at %d", f.seq, f.at, got[i-1].seq, got[i-1].at)
		}
		newest[f.seq%keptKeys] = f.seq
		present[f.seq] = true
	}
	for seq := range int64(len(k.of)) {
		if k.of[seq].is != history.OK || present[seq] {
			continue
		}
		if last, any := newest[seq%keptKeys]; !any || last < seq {
			return fmt.Errorf("record %d, acknowledged at %d, is missing without a newer record of its key", seq, k.of[seq].at)
		}
	}
	return nil
}

// readKept reads the compacted topic and checks it.
func (r *run) readKept(ctx context.Context, how string) {
	if !slices.Contains(r.p.clients, compactedWriter) || r.failed.Load() {
		return
	}
	u := r.newUser(client.Options{RetryTime: calmTime})
	defer u.transport.CloseIdleConnections()
	var got []found
	for rec, err := range u.api.Records(ctx, keptTopic, client.ReadOptions{Offset: client.Earliest, MaxBytes: 64 << 10}) {
		if err != nil {
			r.fault("cannot read the compacted topic %s: %v", how, err)
			return
		}
		id, seq, _, err := history.ParseValue(rec.Value, nil)
		if err != nil || id != r.kept.client || !bytes.Equal(rec.Key, keptKey(seq)) {
			r.fault("%s the compacted topic has at %d the key %q and the value %.100q: %v", how, rec.Offset, rec.Key, rec.Value, err)
			return
		}
		got = append(got, found{rec.Offset, seq})
	}
	if err := r.kept.judge(got); err != nil {
		r.fault("%s the compacted topic: %v", how, err)
	}
	r.counts.add("records read from the compacted topic", int64(len(got)))
}

// topics returns the topics of a run with their settings.
func (r *run) topics() map[string]client.TopicSpec {
	all := map[string]client.TopicSpec{topic: {Partitions: r.p.parts}}
	if slices.Contains(r.p.clients, compactedWriter) {
		all[keptTopic] = client.TopicSpec{Partitions: 1, Settings: map[string]string{"cleanup-policy": "compact"}}
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

// TestKept checks that faults of a compacted topic are detected.
func TestKept(t *testing.T) {
	k := &kept{}
	for seq := range int64(3 * keptKeys) {
		k.of = append(k.of, keptRecord{history.OK, seq})
	}
	k.of[keptKeys+1].is, k.of[keptKeys+2].is = history.Unknown, history.Rejected
	all := func(but ...int64) (got []found) {
		skip := map[int64]bool{keptKeys + 2: true}
		for _, seq := range but {
			skip[seq] = true
		}
		for seq := range int64(len(k.of)) {
			if !skip[seq] {
				got = append(got, found{seq, seq})
			}
		}
		return got
	}
	moved := all()
	moved[len(moved)-1].at++
	for _, c := range []struct {
		name string
		got  []found
		want string
	}{
		{"nothing compacted", all(), ""},
		{"an old value is missing", all(0, keptKeys+3), ""},
		{"an unknown one is missing", all(keptKeys + 1), ""},
		{"the newest is missing", all(2*keptKeys + 5), "is missing"},
		{"the end is missing", all()[:2*keptKeys], "is missing"},
		{"all records are missing", nil, "is missing"},
		{"moved", moved, "was acknowledged at"},
		{"rejected", append(all()[:keptKeys+2], found{keptKeys + 2, keptKeys + 2}), "rejected"},
		{"twice", append(all(), found{3*keptKeys + 1, keptKeys + 1}), "comes after"},
		{"never sent", append(all(), found{3 * keptKeys, 3 * keptKeys}), "is record"},
	} {
		err := k.judge(c.got)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
