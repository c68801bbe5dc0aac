package broker_test

import (
	"fmt"
	"testing"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/must"
)

// TestAdjacentPartitionsAreOneRequest: a consumer of all partitions of a topic makes one request
// per object.
func TestAdjacentPartitionsAreOneRequest(t *testing.T) {
	s := &hooked{Store: objstore.NewMemory()}
	b := open(t, options(s))
	create(t, b, "a", 8)
	for round := range 3 {
		var appends []broker.Append
		for p := range 8 {
			appends = append(appends, data(t, "a", p, fmt.Sprint(round, p), "x"))
		}
		for _, r := range b.Submit(t.Context(), appends).Wait(t.Context()) {
			must.NoError(t, r.Err)
		}
	}
	kill(b)
	o := options(s)
	b = open(t, o)
	var wants []broker.Want
	for p := range 8 {
		wants = append(wants, broker.Want{Topic: "a", Partition: int32((p + 3) % 8)})
	}
	before := s.gets.Load()
	f := must.Get(b.Fetch(t.Context(), wants, 0, 0))(t)
	must.Equalf(t, s.gets.Load()-before, 3, "GETs for 3 objects")
	for i := range f.Parts {
		vals, _ := values(t, &f.Parts[i], 0)
		want := ""
		for round := range 3 {
			want += fmt.Sprint(round, wants[i].Partition) + "x"
		}
		if got := fmt.Sprint(vals); len(vals) != 6 || join(vals) != want {
			t.Fatalf("partition %d: %s", wants[i].Partition, got)
		}
	}
	f.Release()
	must.Equalf(t, o.Budget.Class(budget.Fetch).Used(), 0, "bytes still reserved")
}

func join(vals []string) (s string) {
	for _, v := range vals {
		s += v
	}
	return s
}
