package seb_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sebbroker/seb"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// keyed opens a broker with a topic of two partitions and a key index. put writes a record to it.
func keyed(t *testing.T) (b *seb.Broker, put func(part int32, key, value string, time int64)) {
	t.Helper()
	b = open(t, seb.Options{Bucket: t.TempDir(), BatchWait: -1})
	spec := seb.TopicSpec{Partitions: 2, Settings: map[string]string{"key-index": "true"}}
	must.Get(b.CreateTopic(t.Context(), "t", spec))(t)
	return b, func(part int32, key, value string, time int64) {
		t.Helper()
		r := record.Record{Key: []byte(key), Timestamp: time, Headers: []record.Header{{Key: "h", Value: []byte(value)}}}
		if value != "" {
			r.Value = []byte(value)
		}
		must.Get(b.Produce(t.Context(), "t", part, r))(t)
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
	check.Equal(t, key("a")+", "+key("b")+", "+key("c/2")+", "+key("d"), "0/1 2, none, 1/2 1, none")
	keys := func(prefix string) string {
		var list []string
		for e, err := range b.Keys(ctx, "t", []byte(prefix)) {
			must.NoError(t, err)
			list = append(list, fmt.Sprintf("%s@%d/%d", e.Key, e.Partition, e.Offset))
		}
		return strings.Join(list, " ")
	}
	check.Equal(t, keys("")+", "+keys("c/"), "a@0/1 c/1@1/1 c/2@1/2, c/1@1/1 c/2@1/2")
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
	check.Equal(t, history("a", seb.KeyHistoryOptions{}), "0/1=2 1/0=3 0/0=1")
	check.Equal(t, history("b", seb.KeyHistoryOptions{Partition: new(int32(0)), OldestFirst: true}), "0/2=1 0/3=")
	for range 250 { // more than a page
		put(0, "many", "x", 1)
	}
	if got := history("many", seb.KeyHistoryOptions{OldestFirst: true}); strings.Count(got, "=x") != 250 || !strings.HasPrefix(got, "0/4=x 0/5=x") {
		t.Error(got)
	}
	must.Get(b.Trim(ctx, "t", 0, 200))(t)
	if got := history("many", seb.KeyHistoryOptions{}); strings.Count(got, "=x") != 54 || !strings.HasSuffix(got, " 0/200=x") {
		t.Error(got)
	}
}

func TestKeyErrors(t *testing.T) {
	b := open(t, seb.Options{Bucket: "mem:"})
	produce(t, b, "plain", "v")
	ctx := t.Context()
	must.Get(b.CreateTopic(ctx, "t", seb.TopicSpec{Settings: map[string]string{"cleanup-policy": "compact"}}))(t)
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
		check.ErrorIsf(t, c.err, c.want, "%s", name)
	}
	check.ErrorIsf(t, check.Err(b.Key(ctx, "plain", []byte("k"))), seb.ErrKeyIndexOff, "a key without an index")
	must.NoError(t, b.Close(ctx))
	check.ErrorIsf(t, check.Err(b.Key(ctx, "t", []byte("k"))), seb.ErrClosed, "after Close")
}
