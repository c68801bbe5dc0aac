package seb_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sebbroker/seb"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// keyed opens a broker with a topic of two partitions and a key index. put writes a record to it.
func keyed(t *testing.T) (b *seb.Broker, put func(part int32, key, value string, time int64)) {
	t.Helper()
	b = open(t, seb.Options{Bucket: t.TempDir(), BatchWait: -1})
	spec := seb.TopicSpec{Partitions: 2, Settings: map[string]string{"key-index": "true"}}
	if _, err := b.CreateTopic(t.Context(), "t", spec); err != nil {
		t.Fatal(err)
	}
	return b, func(part int32, key, value string, time int64) {
		t.Helper()
		r := record.Record{Key: []byte(key), Timestamp: time, Headers: []record.Header{{Key: "h", Value: []byte(value)}}}
		if value != "" {
			r.Value = []byte(value)
		}
		if _, err := b.Produce(t.Context(), "t", part, r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRecordsByKey(t *testing.T) {
	b, put := keyed(t)
	ctx := t.Context()
	key := func(key string) string {
		t.Helper()
		r, err := b.Key(ctx, "t", []byte(key))
		if errors.Is(err, seb.ErrKeyNotFound) {
			return "none"
		}
		if err != nil || string(r.Key) != key || string(r.Headers[0].Value) != string(r.Value) {
			t.Fatalf("%+v, %v", r, err)
		}
		return fmt.Sprintf("%d/%d %s", r.Partition, r.Offset, r.Value)
	}
	put(0, "a", "1", 10)
	if got := key("a"); got != "0/0 1" { // a read sees the record at once
		t.Error(got)
	}
	put(0, "a", "2", 30)
	put(1, "a", "3", 20)
	put(0, "b", "1", 1)
	put(0, "b", "", 2)
	put(1, "c/1", "1", 1)
	put(1, "c/2", "1", 1)
	if got := key("a") + ", " + key("b") + ", " + key("c/2") + ", " + key("d"); got != "0/1 2, none, 1/2 1, none" {
		t.Error(got)
	}
	keys := func(prefix string) string {
		var list []string
		for e, err := range b.Keys(ctx, "t", []byte(prefix)) {
			must.NoError(t, err)
			list = append(list, fmt.Sprintf("%s@%d/%d", e.Key, e.Partition, e.Offset))
		}
		return strings.Join(list, " ")
	}
	if got := keys("") + ", " + keys("c/"); got != "a@0/1 c/1@1/1 c/2@1/2, c/1@1/1 c/2@1/2" {
		t.Error(got)
	}
}

func TestHistoryOfAKey(t *testing.T) {
	b, put := keyed(t)
	put(0, "a", "1", 10)
	put(0, "a", "2", 30)
	put(1, "a", "3", 20)
	put(0, "b", "1", 1)
	put(0, "b", "", 2)
	ctx := t.Context()
	history := func(key string, o seb.KeyHistoryOptions) string {
		var list []string
		for r, err := range b.KeyHistory(ctx, "t", []byte(key), o) {
			must.NoError(t, err)
			list = append(list, fmt.Sprintf("%d/%d=%s", r.Partition, r.Offset, r.Value))
		}
		return strings.Join(list, " ")
	}
	if got := history("a", seb.KeyHistoryOptions{}); got != "0/1=2 1/0=3 0/0=1" {
		t.Error(got)
	}
	if got := history("b", seb.KeyHistoryOptions{Partition: new(int32(0)), OldestFirst: true}); got != "0/2=1 0/3=" {
		t.Error(got)
	}
	for range 250 { // more than a page
		put(0, "many", "x", 1)
	}
	if got := history("many", seb.KeyHistoryOptions{OldestFirst: true}); strings.Count(got, "=x") != 250 || !strings.HasPrefix(got, "0/4=x 0/5=x") {
		t.Error(got)
	}
	if _, err := b.Trim(ctx, "t", 0, 200); err != nil {
		t.Fatal(err)
	}
	if got := history("many", seb.KeyHistoryOptions{}); strings.Count(got, "=x") != 54 || !strings.HasSuffix(got, " 0/200=x") {
		t.Error(got)
	}
}

func TestKeyErrors(t *testing.T) {
	b := open(t, seb.Options{Bucket: "mem:"})
	produce(t, b, "plain", "v")
	ctx := t.Context()
	if _, err := b.CreateTopic(ctx, "t", seb.TopicSpec{Settings: map[string]string{"cleanup-policy": "compact"}}); err != nil {
		t.Fatal(err)
	}
	first := func(topic string, part *int32) (err error) {
		for _, err = range b.KeyHistory(ctx, topic, []byte("k"), seb.KeyHistoryOptions{Partition: part}) {
			break
		}
		return err
	}
	firstKey := func(topic string) (err error) {
		for _, err = range b.Keys(ctx, topic, nil) {
			break
		}
		return err
	}
	for name, c := range map[string]struct{ err, want error }{
		"history without an index": {first("plain", nil), seb.ErrKeyIndexOff},
		"history of no topic":      {first("none", nil), seb.ErrUnknownTopic},
		"history of no partition":  {first("t", new(int32(1))), seb.ErrUnknownPartition},
		"history of nothing":       {first("t", nil), nil},
		"keys without an index":    {firstKey("plain"), seb.ErrKeyIndexOff},
		"keys of an empty topic":   {firstKey("t"), nil},
		"keys of no topic":         {firstKey("none"), seb.ErrUnknownTopic},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	if _, err := b.Key(ctx, "plain", []byte("k")); !errors.Is(err, seb.ErrKeyIndexOff) {
		t.Errorf("a key without an index: %v", err)
	}
	must.NoError(t, b.Close(ctx))
	if _, err := b.Key(ctx, "t", []byte("k")); !errors.Is(err, seb.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
