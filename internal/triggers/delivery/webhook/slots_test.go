package webhook_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestHangingReceiversDoNotBlockOthers: many triggers, all but one with receivers that never
// answer.
func TestHangingReceiversDoNotBlockOthers(t *testing.T) {
	hang := target(t, webhook.Config{URL: raw(t, func(c net.Conn) { head(c); gone(c) })})
	o := local(t)
	o.Total = 16
	s := newSender(t, o) // closed before the receivers, which wait for their connections
	well := target(t, webhook.Config{URL: server(t, func(http.ResponseWriter, *http.Request) {})})
	ctx, cancel := context.WithCancel(t.Context())
	var senders sync.WaitGroup
	taken := make(map[string]int)
	for range 5 {
		for i := range 10 {
			trigger := fmt.Sprint("hangs ", i)
			slot := s.Reserve(hang, message(trigger))
			if slot == nil {
				continue
			}
			taken[trigger]++
			senders.Go(func() {
				defer slot.Release()
				if got := slot.Send(ctx); got.Kind != webhook.Stopped {
					t.Errorf("hanging receiver: %+v", got)
				}
			})
		}
	}
	sum := 0
	for _, n := range taken {
		sum += n
		if n > 1 {
			t.Errorf("a trigger has %d slots, want 1: half of all were taken in the first round", n)
		}
	}
	if len(taken) != 10 || sum > 15 {
		t.Errorf("%d of 10 triggers have %d of 16 slots: %v", len(taken), sum, taken)
	}
	for range 20 { // one after the other, while the others hang
		slot := s.Reserve(well, message("well"))
		if slot == nil {
			t.Fatal("a trigger with a working receiver got no slot")
		}
		if got := slot.Send(t.Context()); got.Kind != webhook.Delivered {
			t.Errorf("%+v", got)
		}
		slot.Release()
		slot.Release()
	}
	cancel()
	senders.Wait()
}

func TestSlots(t *testing.T) {
	o := local(t)
	o.Total = 4
	s := newSender(t, o)
	to := target(t, webhook.Config{URL: "http://127.0.0.1:1/"})
	taken := map[string]int{}
	take := func(trigger string) *webhook.Slot {
		slot := s.Reserve(to, message(trigger))
		if slot != nil {
			t.Cleanup(slot.Release)
		}
		return slot
	}
	for i, tt := range []struct {
		trigger string
		want    bool
	}{
		{"a", true},
		{"a", true},
		{"a", false}, // half is taken: one per trigger
		{"b", true},
		{"b", false},
		{"c", true}, // the last slot
		{"d", false},
	} {
		check.Equalf(t, s.Room(tt.trigger, taken[tt.trigger]), tt.want, "step %d: trigger %s has room", i, tt.trigger)
		if tt.want {
			taken[tt.trigger]++
		}
		check.Equalf(t, take(tt.trigger) != nil, tt.want, "step %d: trigger %s got a slot", i, tt.trigger)
	}
}

func TestBytesAreBounded(t *testing.T) {
	o := local(t)
	o.Total, o.Bytes = 100, 150<<10
	s := newSender(t, o)
	large := target(t, webhook.Config{
		URL: "http://127.0.0.1:1/", ContentType: "text/plain", Template: strings.Repeat("x", 60<<10) + strings.Repeat("{{.Entity}}", 100),
	})
	first := s.Reserve(large, message("a"))
	if first == nil {
		t.Fatal("no slot for the first message")
	}
	taken := 1
	for i := range 10 {
		if slot := s.Reserve(large, message(fmt.Sprint(i))); slot != nil {
			taken++
			defer slot.Release()
		}
	}
	// 32 KiB and 60 KiB each, with spare capacity: a second one gets a slot, but its body does not
	// fit.
	check.Equalf(t, taken, 1, "messages fit into %d bytes", o.Bytes)
	first.Release()
	if slot := s.Reserve(large, message("b")); slot == nil {
		t.Error("no slot after a release")
	} else {
		slot.Release()
	}
}

func TestLargeMessageAlone(t *testing.T) {
	o := local(t)
	o.Bytes = 32 << 10
	s := newSender(t, o)
	large := target(t, webhook.Config{URL: "http://127.0.0.1:1/", ContentType: "text/plain", Template: strings.Repeat("x", 60<<10)})
	slot := s.Reserve(large, message("a"))
	if slot == nil {
		t.Fatal("a message larger than the limit got no slot")
	}
	if s.Reserve(large, message("b")) != nil {
		t.Error("a second message got a slot too")
	}
	slot.Release()
}

func TestCloseWaits(t *testing.T) {
	s := must.Get(webhook.NewSender(local(t)))(t)
	arrived := make(chan struct{})
	answer := make(chan struct{})
	to := target(t, webhook.Config{URL: server(t, func(http.ResponseWriter, *http.Request) { close(arrived); <-answer })})
	slot := s.Reserve(to, message("t"))
	outcome := make(chan webhook.Outcome, 1)
	go func() {
		outcome <- slot.Send(t.Context())
		slot.Release()
	}()
	<-arrived
	closed := make(chan struct{})
	go func() { s.Close(); close(closed) }()
	for { // until Close has started
		other := s.Reserve(to, message("u"))
		if other == nil {
			break
		}
		other.Release()
	}
	select {
	case <-closed:
		t.Error("Close returned with a message in flight")
	default:
	}
	close(answer)
	if got := <-outcome; got.Kind != webhook.Delivered {
		t.Errorf("%+v", got)
	}
	<-closed
	s.Close()
}

// TestManyAtOnce sends from many goroutines, for the race detector.
func TestManyAtOnce(t *testing.T) {
	var arrived atomic.Int64
	to := target(t, webhook.Config{
		URL:      server(t, func(http.ResponseWriter, *http.Request) { arrived.Add(1) }),
		Template: `{{json .Witness.signup.Data.name}}`,
	})
	s := newSender(t, local(t))
	m := message("t")
	var delivered atomic.Int64
	var senders sync.WaitGroup
	for range 8 {
		senders.Go(func() {
			for range 50 {
				slot := s.Reserve(to, m)
				if slot == nil {
					continue
				}
				if slot.Send(t.Context()).Kind == webhook.Delivered {
					delivered.Add(1)
				}
				slot.Release()
			}
		})
	}
	senders.Wait()
	if delivered.Load() == 0 || delivered.Load() != arrived.Load() {
		t.Errorf("%d delivered, %d arrived", delivered.Load(), arrived.Load())
	}
}
