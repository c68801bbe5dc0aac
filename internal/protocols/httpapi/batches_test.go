package httpapi

import (
	"math"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/recordtest"
)

// TestBatchesHaveNoGap checks that a batch that does not fit ends the answer, even if the next one
// would fit.
func TestBatchesHaveNoGap(t *testing.T) {
	s := start(t)
	for _, n := range []int{10, 1000, 20, 1000, 30} {
		s.mustPost("topic-name=t", api.TextPlain, strings.Repeat("x", n))
	}
	a := s.get("/records?topic-name=t&offset=0&max-records=100&max-bytes=500", api.RecordBatch)
	if sum, err := record.Verify(a.body); err != nil || sum.Span != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
}

// TestClientOffsetsAreIgnored checks that batches are distributed by key, regardless of the offsets
// in them.
func TestClientOffsetsAreIgnored(t *testing.T) {
	s := start(t)
	s.must(201, s.send("PUT", "/topic?topic-name=p", `{"partitions":3}`), nil)
	for _, base := range []int64{7, -1, math.MinInt64, math.MaxInt64} {
		one, _ := recordtest.Encode([]record.Record{{Key: []byte("k"), Value: []byte("v")}}, record.EncodeOptions{})
		record.Patch(one, base, 9)
		s.mustPost("topic-name=p", api.RecordBatch, string(one)+string(one))
	}
	at := int(record.PartitionOf([]byte("k"), 3))
	check.Equalf(t, len(s.values("p", at)), 8, "records in partition %d", at)
}
