package seb_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/operate/node"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestRecordsOfACompactedTopic: compaction leaves offsets 9 and 19 of 30, and nothing after them.
func TestRecordsOfACompactedTopic(t *testing.T) {
	dir := t.TempDir()
	compactedBucket(t, dir)
	b := open(t, seb.Options{Bucket: dir, BatchWait: -1})
	topic, err := b.Topic(t.Context(), "t")
	if err != nil || topic.Partitions[0].Records != 2 || topic.Partitions[0].Next != 30 {
		t.Fatalf("%+v, %v", topic, err)
	}
	for begin := range int64(31) {
		var left []string
		for _, o := range []int64{9, 19} {
			if o >= begin {
				left = append(left, fmt.Sprintf("%d=%d", o, o))
			}
		}
		want := strings.Join(left, " ")
		for _, maxBytes := range []int{0, 1} {
			check.Equalf(t, read(t, b, "t", seb.ReadOptions{Offset: begin, MaxBytes: maxBytes}), want, "from %d", begin)
		}
	}
	f := must.Get(b.Fetch(t.Context(), "t", seb.FetchOptions{Offset: 25, Wait: time.Minute}))(t)
	for r, err := range f.All() {
		t.Errorf("%v, %v", r, err)
	}
	if f.Close(); f.ResumeOffset() != 30 {
		t.Errorf("resume offset %d, want 30", f.ResumeOffset())
	}
	check.Equalf(t, produce(t, b, "t", "new"), 30, "next offset")
	for r, err := range b.Records(t.Context(), "t", seb.ReadOptions{Offset: 25, Follow: true}) {
		if err != nil || r.Offset != 30 || string(r.Value) != "new" {
			t.Errorf("%v, %v", r, err)
		}
		break
	}
}

// compactedBucket returns a bucket with a compacted topic t.
func compactedBucket(t *testing.T, dir string) {
	t.Helper()
	b := open(t, seb.Options{Bucket: dir, BatchWait: -1})
	must.Get(b.CreateTopic(t.Context(), "t", seb.TopicSpec{Settings: map[string]string{"cleanup-policy": "compact", "delete-retention-time": "0s"}}))(t)
	for i := range 30 {
		r := record.Record{Key: []byte{byte(i / 10)}, Value: fmt.Append(nil, i)}
		if i >= 20 {
			r.Value = nil
		}
		must.Get(b.Produce(t.Context(), "t", 0, r))(t)
	}
	must.NoError(t, b.Close(t.Context()))
	n := must.Get(node.Open(t.Context(), node.Options{Bucket: dir, Pack: compact.Policy{Age: time.Microsecond, Small: 2}, MergeEvery: time.Millisecond}))(t)
	defer func() { check.NoError(t, n.Close(t.Context())) }()
	sebtest.Eventually(t, "two records are left", func() bool {
		info := must.Get(n.Topic(t.Context(), "t", false))(t)
		return info.Partitions[0].Records == 2
	})
}
