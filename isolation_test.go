package seb

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestReadsOfTransactions: a read of the program ends at the last stable offset, or has all records.
func TestReadsOfTransactions(t *testing.T) {
	b := must.Get(Open(t.Context(), Options{Bucket: t.TempDir(), BatchWait: -1}))(t)
	defer func() { check.NoError(t, b.Close(context.Background())) }()
	must.Get(b.CreateTopic(t.Context(), "t", TopicSpec{}))(t)
	x := brokertest.NewTransactor(t, b.n, "x")
	for i, value := range []string{"aborted", "committed", "open"} {
		x.Send(t, "t", 0, record.Record{Value: []byte(value)})
		must.Get(b.Produce(t.Context(), "t", 0, record.Record{Value: fmt.Append(nil, i)}))(t)
		if value != "open" {
			x.End(t, value == "committed")
		}
	}
	for text, o := range map[string]ReadOptions{
		"1=0 3=committed 4=1":                      {},
		"1=0 3=committed 4=1 ":                     {MaxBytes: 1},
		"0=aborted 1=0 3=committed 4=1 6=open 7=2": {Uncommitted: true},
		"4=1": {Offset: 4},
		"":    {Offset: Latest},
		"7=2": {Offset: 7, Uncommitted: true},
	} {
		var got []string
		for r, err := range b.Records(t.Context(), "t", o) {
			must.NoError(t, err)
			got = append(got, fmt.Sprintf("%d=%s", r.Offset, r.Value))
		}
		check.Equalf(t, strings.Join(got, " "), strings.TrimSpace(text), "%+v", o)
	}
	p := must.Get(b.Topic(t.Context(), "t"))(t).Partitions[0]
	check.Equal(t, p.Stable, 6)
	check.Equal(t, p.Next, 8)
}
