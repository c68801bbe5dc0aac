package encoding

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func (t *Text) text() []byte { return bytes.Join(t.Out.List, nil) }

func TestTextIncludesPartition(t *testing.T) {
	total := budget.New(64 << 20)
	m := &budget.Arena{Class: total.Class(budget.Fetch), Buffers: total.Buffers()}
	defer m.Release()
	take := func(s *Text, partition int32, rec *record.Record) {
		t.Helper()
		s.Partition = partition
		must.NoError(t, s.Take(m, rec, false))
	}
	one := Text{Form: Single}
	take(&one, 7, &record.Record{Offset: 3, Timestamp: 5, Key: []byte{}})
	must.NoError(t, one.Finish(m))
	check.Equal(t, string(one.text()), `{"partition":7,"offset":3,"timestamp":5,"key":"","value":null}`+"\n")
	for name, next := range map[string]string{"last": "", "not the last": "2147483647:9223372036854775807"} {
		page := Text{Form: Page, Next: next}
		var want api.KeyHistory
		want.Next = next
		want.Records = []api.PartitionRecord{}
		for _, partition := range []int32{0, 1, math.MaxInt32} {
			take(&page, partition, &record.Record{Offset: math.MaxInt64, Timestamp: 1, Value: []byte("v")})
			want.Records = append(want.Records, api.PartitionRecord{Partition: partition, Record: api.Record{Offset: math.MaxInt64, Timestamp: 1, Value: new("v")}})
		}
		must.NoError(t, page.Finish(m))
		var got api.KeyHistory
		if err := json.Unmarshal(page.text(), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s (%v)", name, page.text(), err)
		}
	}
	empty := Text{Form: Page}
	if err := empty.Finish(m); err != nil || string(empty.text()) != `{"records":[]}`+"\n" {
		t.Errorf("empty: %s, %v", empty.text(), err)
	}
}
