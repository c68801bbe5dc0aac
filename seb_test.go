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
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, o seb.Options) *seb.Broker {
	t.Helper()
	b, err := seb.Open(t.Context(), o)
	must.NoError(t, err)
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

func produce(t *testing.T, b *seb.Broker, topic string, values ...string) int64 {
	t.Helper()
	var recs []record.Record
	for _, v := range values {
		recs = append(recs, record.Record{Value: []byte(v)})
	}
	first, err := b.Produce(t.Context(), topic, 0, recs...)
	must.NoError(t, err)
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
	if first := produce(t, b, "t", "a", "b"); first != 0 {
		t.Errorf("first offset %d", first)
	}
	if first := produce(t, b, "t", "c"); first != 2 {
		t.Errorf("next offset %d", first)
	}
	if got := read(t, b, "t", seb.ReadOptions{}); got != "0=a 1=b 2=c" {
		t.Errorf("from memory: %s", got)
	}
	must.NoError(t, b.Close(t.Context()))
	again := open(t, seb.Options{Bucket: dir})
	if got := read(t, again, "t", seb.ReadOptions{Offset: 1}); got != "1=b 2=c" {
		t.Errorf("from disk: %s", got)
	}
	if got := read(t, again, "t", seb.ReadOptions{Offset: seb.Latest}); got != "" {
		t.Errorf("from the end: %s", got)
	}
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
	if _, err := b.Produce(t.Context(), "t", 0, recs...); err != nil {
		t.Fatal(err)
	}
	check := func(b *seb.Broker) {
		next := int64(7)
		for r, err := range b.Records(t.Context(), "t", seb.ReadOptions{Offset: 7, MaxBytes: 200_000}) {
			must.NoError(t, err)
			if r.Offset != next || !bytes.Equal(r.Value, value) {
				t.Fatalf("record %d of %d bytes, want %d", r.Offset, len(r.Value), next)
			}
			next++
		}
		if next != n {
			t.Errorf("ended at %d", next)
		}
	}
	check(b)
	must.NoError(t, b.Close(t.Context()))
	check(open(t, seb.Options{Bucket: dir}))
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
	if !errors.Is(first.Err(), seb.ErrFenced) {
		t.Errorf("done because of %v", first.Err())
	}
	produce(t, second, "t", "b")
	if got := read(t, second, "t", seb.ReadOptions{}); got != "0=a 1=b" {
		t.Errorf("got %s", got)
	}
}

func TestReadOnlyFollowsAndRefuses(t *testing.T) {
	dir := t.TempDir()
	b := open(t, seb.Options{Bucket: dir})
	produce(t, b, "t", "a")
	r := open(t, seb.Options{Bucket: dir, ReadOnly: true})
	if got := read(t, r, "t", seb.ReadOptions{}); got != "0=a" {
		t.Errorf("got %s", got)
	}
	if _, err := r.Produce(t.Context(), "t", 0, record.Record{}); !errors.Is(err, seb.ErrReadOnly) {
		t.Errorf("produce: %v", err)
	}
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
	if _, err := b.Produce(ctx, "t", 0, record.Record{}); !errors.Is(err, seb.ErrUnknownTopic) {
		t.Errorf("no auto-create: %v", err)
	}
	if _, err := b.CreateTopic(ctx, "../../evil", seb.TopicSpec{}); !errors.Is(err, seb.ErrInvalid) {
		t.Errorf("evil name: %v", err)
	}
	if _, err := b.CreateTopic(ctx, "t", seb.TopicSpec{Partitions: 2, Settings: map[string]string{"retention-time": "7d"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.CreateTopic(ctx, "t", seb.TopicSpec{}); !errors.Is(err, seb.ErrTopicExists) {
		t.Errorf("created twice: %v", err)
	}
	if got, err := b.UpdateTopic(ctx, "t", seb.TopicSpec{Partitions: 3}); err != nil || len(got.Partitions) != 3 {
		t.Errorf("grown: %v, %v", got, err)
	}
	if _, err := b.Produce(ctx, "t", 3, record.Record{}); !errors.Is(err, seb.ErrUnknownPartition) {
		t.Errorf("partition 3 of 3: %v", err)
	}
	if _, err := b.Produce(ctx, "t", 2, record.Record{Value: []byte("v")}); err != nil {
		t.Error(err)
	}
	if all := b.Topics(ctx); len(all) != 1 || all[0].Partitions[2].Next != 1 || all[0].Name != "t" {
		t.Errorf("topics %v", all)
	}
	if err := b.DeleteTopic(ctx, "t"); err != nil {
		t.Error(err)
	}
	for _, err := range b.Records(ctx, "t", seb.ReadOptions{}) {
		if !errors.Is(err, seb.ErrUnknownTopic) {
			t.Errorf("deleted topic: %v", err)
		}
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
	if _, err := b.ProduceBatches(t.Context(), "t", 0, data); !errors.Is(err, seb.ErrInvalid) {
		t.Errorf("damaged batch: %v", err)
	}
	if _, err := b.Produce(t.Context(), "t", 0, record.Record{Value: make([]byte, 31<<20)}); !errors.Is(err, seb.ErrTooLarge) {
		t.Errorf("31 MiB: %v", err)
	}
	if got := read(t, b, "t", seb.ReadOptions{}); got != "0=v 1=v" {
		t.Errorf("got %s", got)
	}
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
	data, err := os.ReadFile(slot)
	must.NoError(t, err)
	data[len(data)-10] ^= 1
	must.NoError(t, os.Chmod(slot, 0o600))
	must.NoError(t, os.WriteFile(slot, data, 0o600))
	again := open(t, seb.Options{Bucket: dir})
	var last error
	for _, err := range again.Records(t.Context(), "t", seb.ReadOptions{}) {
		last = err
	}
	if !errors.Is(last, seb.ErrCorrupt) {
		t.Errorf("got %v", last)
	}
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
		if _, err := seb.Open(t.Context(), o); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
	dir := t.TempDir()
	open(t, seb.Options{Bucket: "mem:", DataDir: dir})
	if _, err := seb.Open(t.Context(), seb.Options{Bucket: "mem:", DataDir: dir}); err == nil {
		t.Error("two brokers share a data folder")
	}
}

func TestAuditTopic(t *testing.T) {
	if _, err := seb.Open(t.Context(), seb.Options{Bucket: "mem:", AuditTopic: "a/b"}); err == nil {
		t.Fatal("opened with an invalid audit topic")
	}
	b := open(t, seb.Options{Bucket: "mem:", AuditTopic: "audit"})
	produce(t, b, "made", "v")
	must.NoError(t, b.DeleteTopic(t.Context(), "made"))
	got := read(t, b, "audit", seb.ReadOptions{})
	for _, want := range []string{
		`0={"actor":{"principal":"seb"},"protocol":"library","action":"topic.create","resource":{"type":"topic","name":"made"},"outcome":"done"`,
		`1={"actor":{"principal":"seb"},"protocol":"library","action":"topic.delete","resource":{"type":"topic","name":"made"},"outcome":"done"}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("audit records %s, want %s", got, want)
		}
	}
	if _, err := b.Produce(t.Context(), "audit", 0, record.Record{Value: []byte("v")}); err == nil {
		t.Error("produced to the audit topic")
	}
}
