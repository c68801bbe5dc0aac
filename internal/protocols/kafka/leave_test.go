package kafka_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/objstore"
)

// TestLeave: a broker that leaves names the next leader in the answer to a fetch that waits, and to
// requests that come later. It waits until each client has been told, or is gone.
func TestLeave(t *testing.T) {
	c := newCrew(t, objstore.NewMemory(), 2)
	old, next := c.mates[0], c.mates[1]
	ref := topic(t, old.b, "t", broker.TopicSpec{})
	waits, comes, writes, ends := dial(t, old.served), dial(t, old.served), dial(t, old.served), dial(t, old.served)
	for _, raw := range []*raw{comes, ends} {
		raw.ask(fetchRequest(ref, 0), 16)
	}
	writes.ask(produceRequest(ref, -1, batch(t, nil, "v")), 10)
	r := fetchRequest(ref, 1)
	r.MinBytes, r.MaxWaitMillis = 1, 50_000
	waits.send(r, 16)
	old.asked(t, "Fetch", 3)
	old.k.Leave(t.Context()) // it leads, and stays
	c.lead(next)
	if err := old.b.EnsureTopic(t.Context(), "u"); err == nil { // it learns that it was deposed
		t.Fatal("a deposed leader created a topic")
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		old.k.Leave(context.Background())
	}()
	expect := func(code int16, leader, epoch int32, brokers int, address string) {
		t.Helper()
		if code != 6 || leader != 101 || epoch != 2 || brokers != 1 || address != next.addr {
			t.Errorf("code %d, leader %d of epoch %d, %d brokers, at %s", code, leader, epoch, brokers, address)
		}
	}
	fetched := func(resp kmsg.Response) {
		t.Helper()
		f := resp.(*kmsg.FetchResponse)
		p := fetched(f)
		expect(p.ErrorCode, p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch, len(f.Brokers), fmt.Sprintf("%s:%d", f.Brokers[0].Host, f.Brokers[0].Port))
	}
	fetched(waits.receive(r, 16, waits.last))
	fetched(comes.ask(fetchRequest(ref, 0), 16))
	p := writes.ask(produceRequest(ref, -1, batch(t, nil, "w")), 10).(*kmsg.ProduceResponse)
	expect(produced(p).ErrorCode, produced(p).CurrentLeader.LeaderID, produced(p).CurrentLeader.LeaderEpoch, len(p.Brokers), fmt.Sprintf("%s:%d", p.Brokers[0].Host, p.Brokers[0].Port))
	select {
	case <-left:
		t.Error("it has left before all clients were told")
	default:
	}
	_ = ends.Close()
	<-left
}
