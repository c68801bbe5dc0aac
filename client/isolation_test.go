package client_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/sebtest"
)

// mixed makes topic t with a committed transaction, 20 aborted ones with other records between them, and an open one.
// It returns the values that a committed read gets, and those of all records.
func mixed(t *testing.T, b *broker.Broker) (x *brokertest.Transactor, committed, all []string) {
	t.Helper()
	must.Get(b.CreateTopic(t.Context(), "t", broker.TopicSpec{Partitions: 1}))(t)
	x = brokertest.NewTransactor(t, b, "x")
	send := func(value string) {
		x.Send(t, "t", 0, record.Record{Value: []byte(value)})
		all = append(all, value)
	}
	send("first")
	x.End(t, true)
	committed = append(committed, "first")
	for i := range 20 {
		send(fmt.Sprint("x", i))
		if i%5 == 0 {
			brokertest.Produce(t, b, "t", 0, recordtest.Values(fmt.Sprint(i))...)
			committed, all = append(committed, fmt.Sprint(i)), append(all, fmt.Sprint(i))
		}
		x.End(t, false)
	}
	send("open")
	return x, committed, all
}

// TestRecordsOfTransactions reads with answers of several sizes, and with a filter.
func TestRecordsOfTransactions(t *testing.T) {
	c, b, _ := openBroker(t)
	x, committed, all := mixed(t, b)
	for _, maxBytes := range []int{0, 1, 200} {
		for _, o := range []client.ReadOptions{{}, {Contains: []byte("x")}, {Uncommitted: true}, {Uncommitted: true, Contains: []byte("x")}} {
			var want []string
			for _, v := range map[bool][]string{false: committed, true: all}[o.Uncommitted] {
				if o.Contains == nil || strings.Contains(v, "x") {
					want = append(want, v)
				}
			}
			o.MaxBytes = maxBytes
			var got []string
			for r, err := range c.Records(t.Context(), "t", o) {
				must.NoError(t, err)
				got = append(got, string(r.Value))
			}
			check.EqualSlicesf(t, got, want, "%d bytes, uncommitted %v, filter %q", maxBytes, o.Uncommitted, o.Contains)
		}
	}
	topic := must.Get(c.Topic(t.Context(), "t"))(t)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		f, err := c.Fetch(t.Context(), "t", client.FetchOptions{Offset: topic.Partitions[0].LastStable, Wait: time.Minute})
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		for r, err := range f.All() {
			check.NoError(t, err)
			check.Equal(t, string(r.Value), "open")
		}
		check.Equal(t, f.ResumeOffset(), topic.Partitions[0].Next+1)
	})
	x.End(t, true)
	waiting.Wait()
}

// TestConsumerOfTransactions: a consumer gets committed records, and commits beyond what is left out.
func TestConsumerOfTransactions(t *testing.T) {
	c, b, _ := openBroker(t)
	x, committed, _ := mixed(t, b)
	k := consumer(t, c, client.ConsumerOptions{})
	slices.Sort(committed)
	check.Equal(t, rest(t, k), strings.Join(committed, " "))
	must.NoError(t, k.Close(t.Context()))
	x.End(t, false)
	k = consumer(t, c, client.ConsumerOptions{})
	check.Equal(t, rest(t, k), "")
	must.NoError(t, k.Close(t.Context()))
	sebtest.Eventually(t, "no lag", func() bool {
		g, err := c.Group(t.Context(), "g")
		return err == nil && g.Lag == 0
	})
}
