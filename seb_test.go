package seb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sebbroker/seb"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, o seb.Options) *seb.Broker {
	t.Helper()
	b := must.Get(seb.Open(t.Context(), o))(t)
	t.Cleanup(func() { check.NoError(t, b.Close(context.Background())) })
	return b
}

func produce(t *testing.T, b *seb.Broker, topic string, values ...string) int64 {
	t.Helper()
	var recs []record.Record
	for _, v := range values {
		recs = append(recs, record.Record{Value: []byte(v)})
	}
	first := must.Get(b.Produce(t.Context(), topic, 0, recs...))(t)
	return first
}

func read(t *testing.T, b *seb.Broker, topic string, o seb.ReadOptions) string {
	t.Helper()
	var got []string
	for r, err := range b.Records(t.Context(), topic, o) {
		must.NoError(t, err)
		got = append(got, fmt.Sprintf("%d=%s", r.Offset, r.Value))
	}
	return strings.Join(got, " ")
}

func TestRecordsSurviveTheBroker(t *testing.T) {
	dir := t.TempDir()
	b := open(t, seb.Options{Bucket: dir, BatchWait: -1})
	check.Equalf(t, produce(t, b, "t", "a", "b"), 0, "first offset")
	check.Equalf(t, produce(t, b, "t", "c"), 2, "next offset")
	check.Equalf(t, read(t, b, "t", seb.ReadOptions{}), "0=a 1=b 2=c", "from memory")
	must.NoError(t, b.Close(t.Context()))
	again := open(t, seb.Options{Bucket: dir})
	check.Equalf(t, read(t, again, "t", seb.ReadOptions{Offset: 1}), "1=b 2=c", "from disk")
	check.Equalf(t, read(t, again, "t", seb.ReadOptions{Offset: seb.Latest}), "", "from the end")
}

func TestReadsLongerThanOneFetch(t *testing.T) {
	dir := t.TempDir()
	b := open(t, seb.Options{Bucket: dir})
	value := bytes.Repeat([]byte("x"), 50_000)
	const n = 60
	recs := make([]record.Record, n)
	for i := range recs {
		recs[i].Value = value
	}
	must.Get(b.Produce(t.Context(), "t", 0, recs...))(t)
	verify := func(b *seb.Broker) {
		next := int64(7)
		for r, err := range b.Records(t.Context(), "t", seb.ReadOptions{Offset: 7, MaxBytes: 200_000}) {
			must.NoError(t, err)
			if r.Offset != next || !bytes.Equal(r.Value, value) {
				t.Fatalf("record %d of %d bytes, want %d", r.Offset, len(r.Value), next)
			}
			next++
		}
		check.Equalf(t, next, n, "ended at")
	}
	verify(b)
	must.NoError(t, b.Close(t.Context()))
	verify(open(t, seb.Options{Bucket: dir}))
}

func TestFollow(t *testing.T) {
	b := open(t, seb.Options{Bucket: "mem:"})
	produce(t, b, "t", "0")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	n := 0
	for r, err := range b.Records(ctx, "t", seb.ReadOptions{Follow: true}) {
		if err != nil {
			last = err
			continue
		}
		if want := fmt.Sprint(n); string(r.Value) != want {
			t.Errorf("got %s, want %s", r.Value, want)
		}
		if n++; n == 5 {
			cancel()
			continue
		}
		produce(t, b, "t", fmt.Sprint(n))
	}
	if !errors.Is(last, context.Canceled) || n != 5 {
		t.Errorf("%d records, then %v", n, last)
	}
}

func TestTheLastOneOpenedWrites(t *testing.T) {
	dir := t.TempDir()
	first := open(t, seb.Options{Bucket: dir})
	produce(t, first, "t", "a")
	second := open(t, seb.Options{Bucket: dir})
	if _, err := first.Produce(t.Context(), "t", 0, record.Record{Value: []byte("lost")}); !errors.Is(err, seb.ErrFenced) && !errors.Is(err, seb.ErrOutcomeUnknown) {
		t.Errorf("deposed broker: %v", err)
	}
	<-first.Done()
	check.ErrorIsf(t, first.Err(), seb.ErrFenced, "done because of")
	produce(t, second, "t", "b")
	check.Equal(t, read(t, second, "t", seb.ReadOptions{}), "0=a 1=b")
}

func TestReadOnlyFollowsAndRefuses(t *testing.T) {
	dir := t.TempDir()
	b := open(t, seb.Options{Bucket: dir})
	produce(t, b, "t", "a")
	r := open(t, seb.Options{Bucket: dir, ReadOnly: true})
	check.Equal(t, read(t, r, "t", seb.ReadOptions{}), "0=a")
	check.ErrorIsf(t, check.Err(r.Produce(t.Context(), "t", 0, record.Record{})), seb.ErrReadOnly, "produce")
	produce(t, b, "t", "b")
	for rec, err := range r.Records(t.Context(), "t", seb.ReadOptions{Offset: 1, Follow: true}) {
		if err != nil || string(rec.Value) != "b" {
			t.Errorf("followed: %v, %v", rec, err)
		}
		break
	}
}

func TestTopics(t *testing.T) {
	b := open(t, seb.Options{Bucket: "mem:", NoAutoCreate: true})
	ctx := t.Context()
	check.ErrorIsf(t, check.Err(b.Produce(ctx, "t", 0, record.Record{})), seb.ErrUnknownTopic, "no auto-create")
	check.ErrorIsf(t, check.Err(b.CreateTopic(ctx, "../../evil", seb.TopicSpec{})), seb.ErrInvalid, "evil name")
	must.Get(b.CreateTopic(ctx, "t", seb.TopicSpec{Partitions: 2, Settings: map[string]string{"retention-time": "7d"}}))(t)
	check.ErrorIsf(t, check.Err(b.CreateTopic(ctx, "t", seb.TopicSpec{})), seb.ErrTopicExists, "created twice")
	if got, err := b.UpdateTopic(ctx, "t", seb.TopicSpec{Partitions: 3}); err != nil || len(got.Partitions) != 3 {
		t.Errorf("grown: %v, %v", got, err)
	}
	check.ErrorIsf(t, check.Err(b.Produce(ctx, "t", 3, record.Record{})), seb.ErrUnknownPartition, "partition 3 of 3")
	if _, err := b.Produce(ctx, "t", 2, record.Record{Value: []byte("v")}); err != nil {
		t.Error(err)
	}
	if all := b.Topics(ctx); len(all) != 1 || all[0].Partitions[2].Next != 1 || all[0].Name != "t" {
		t.Errorf("topics %v", all)
	}
	check.NoError(t, b.DeleteTopic(ctx, "t"))
	for _, err := range b.Records(ctx, "t", seb.ReadOptions{}) {
		check.ErrorIsf(t, err, seb.ErrUnknownTopic, "deleted topic")
	}
}

func TestOnlyTheBrokerWritesInternalTopics(t *testing.T) {
	b := open(t, seb.Options{Bucket: "mem:", AuditTopic: "audit"})
	data, _ := recordtest.Encode([]record.Record{{Value: []byte("v"), Timestamp: 1}}, record.EncodeOptions{})
	for _, topic := range []string{"triggers", "firings", "audit"} {
		check.ErrorIsf(t, check.Err(b.Produce(t.Context(), topic, 0, record.Record{Value: []byte("v")})), seb.ErrInternalTopic, "produce to %s", topic)
		check.ErrorIsf(t, check.Err(b.ProduceBatches(t.Context(), topic, 0, data)), seb.ErrInternalTopic, "batches to %s", topic)
		check.ErrorIsf(t, check.Err(b.Topic(t.Context(), topic)), seb.ErrUnknownTopic, "%s was created", topic)
	}
	for _, topic := range []string{"triggers", "firings", "events", "a/b"} {
		check.ErrorContains(t, check.Err(seb.Open(t.Context(), seb.Options{Bucket: "mem:", AuditTopic: topic})), "Options.AuditTopic")
	}
}

func TestBatchesOfOthers(t *testing.T) {
	b := open(t, seb.Options{Bucket: "mem:"})
	data, _ := recordtest.Encode([]record.Record{{Value: []byte("v"), Timestamp: 1}}, record.EncodeOptions{Compression: record.Zstd})
	before := bytes.Clone(data)
	for want := range int64(2) {
		if first, err := b.ProduceBatches(t.Context(), "t", 0, data); err != nil || first != want {
			t.Errorf("%d, %v", first, err)
		}
	}
	if !bytes.Equal(before, data) {
		t.Error("the caller's bytes were changed")
	}
	data[len(data)-1] ^= 1
	check.ErrorIsf(t, check.Err(b.ProduceBatches(t.Context(), "t", 0, data)), seb.ErrInvalid, "damaged batch")
	check.ErrorIsf(t, check.Err(b.Produce(t.Context(), "t", 0, record.Record{Value: make([]byte, 31<<20)})), seb.ErrTooLarge, "31 MiB")
	must.Get(b.CreateTopic(t.Context(), "small", seb.TopicSpec{Settings: map[string]string{"max-batch-bytes": "1000"}}))(t)
	small, large := record.Record{Value: make([]byte, 500)}, record.Record{Value: make([]byte, 1000)}
	check.ErrorIsf(t, check.Err(b.Produce(t.Context(), "small", 0, small, large)), seb.ErrTooLarge, "a record above max-batch-bytes")
	check.NoErrorf(t, check.Err(b.Produce(t.Context(), "small", 0, small, small, small)), "small records")
	check.Equal(t, read(t, b, "t", seb.ReadOptions{}), "0=v 1=v")
}

func TestDamageIsAnErrorAndDeletesNothing(t *testing.T) {
	dir := t.TempDir()
	b := open(t, seb.Options{Bucket: dir + "?journal=false"})
	produce(t, b, "t", strings.Repeat("x", 5000))
	must.NoError(t, b.Close(t.Context()))
	var slot string
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, _ error) error {
		if info, err := d.Info(); err == nil && strings.Contains(path, "wal") && info.Size() > 5000 {
			slot = path
		}
		return nil
	})
	data := must.Get(os.ReadFile(slot))(t)
	data[len(data)-10] ^= 1
	must.NoError(t, os.Chmod(slot, 0o600))
	must.NoError(t, os.WriteFile(slot, data, 0o600))
	again := open(t, seb.Options{Bucket: dir})
	var last error
	for _, err := range again.Records(t.Context(), "t", seb.ReadOptions{}) {
		last = err
	}
	check.ErrorIs(t, last, seb.ErrCorrupt)
	if now, err := os.ReadFile(slot); err != nil || !bytes.Equal(now, data) {
		t.Errorf("the object was touched: %v", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]seb.Options{
		"no bucket":      {},
		"bad bucket":     {Bucket: "ftp://x"},
		"little memory":  {Bucket: "mem:", MemoryLimit: 1},
		"negative batch": {Bucket: "mem:", BatchBytes: -1},
		"no unit":        {Bucket: "mem:", PutBudget: "20"},
		"wait of two":    {Bucket: "mem:", PutBudget: "20USD/month", BatchWait: 1},
		"no prices":      {Bucket: "mem:", Prices: "no-such-list"},
	} {
		check.Error(t, check.Err(seb.Open(t.Context(), o)), "%s: opened", name)
	}
	dir := t.TempDir()
	open(t, seb.Options{Bucket: "mem:", DataDir: dir})
	check.Error(t, check.Err(seb.Open(t.Context(), seb.Options{Bucket: "mem:", DataDir: dir})), "two brokers share a data folder")
}

func TestAuditTopic(t *testing.T) {
	must.Error(t, check.Err(seb.Open(t.Context(), seb.Options{Bucket: "mem:", AuditTopic: "a/b"})), "opened with an invalid audit topic")
	b := open(t, seb.Options{Bucket: "mem:", AuditTopic: "audit"})
	produce(t, b, "made", "v")
	must.NoError(t, b.DeleteTopic(t.Context(), "made"))
	got := read(t, b, "audit", seb.ReadOptions{})
	for _, want := range []string{
		`0={"actor":{"principal":"seb"},"protocol":"library","action":"topic.create","resource":{"type":"topic","name":"made"},"outcome":"done"`,
		`1={"actor":{"principal":"seb"},"protocol":"library","action":"topic.delete","resource":{"type":"topic","name":"made"},"outcome":"done"}`,
	} {
		check.Containsf(t, got, want, "audit records")
	}
	check.Error(t, check.Err(b.Produce(t.Context(), "audit", 0, record.Record{Value: []byte("v")})), "produced to the audit topic")
}
