package index

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// took returns the events that a subscription has, or waits for one.
func took(t *testing.T, s *Subscription) (list []string) {
	t.Helper()
	events := must.Get(s.Next(t.Context()))(t)
	for _, e := range events {
		list = append(list, string(e))
	}
	return list
}

func TestSubscription(t *testing.T) {
	timed(t, func(t *testing.T) {
		l := newLog(1)
		b := l.broker()
		l.elect(b)
		x := open(t, b, "")
		l.post(0, `a s {"metric":1,"ttl":3}`, `b s {"metric":0}`)
		ask(t, x, "true")
		var first []string
		s, err := x.Subscribe(t.Context(), parse(t, `host = "a" or metric > 5`), func(e *Event) error {
			first = append(first, show(e))
			return nil
		})
		must.NoError(t, err)
		defer s.Close()
		same(t, "the first events", first, `a s {"metric":1,"ttl":3}`)
		l.post(0, `b s {"metric":6,"rack":"r"}`, `b s {"metric":1}`, `b s {"metric":7}`)
		pass(time.Millisecond)
		same(t, "new events, also those that are replaced", took(t, s),
			`{"host":"b","service":"s","time":"2000-01-01T00:00:00.000Z","metric":6,"rack":"r"}`, `{"host":"b","service":"s","time":"2000-01-01T00:00:00.000Z","metric":7}`)
		pass(4 * time.Second)
		same(t, "an expired event", took(t, s), `{"host":"a","service":"s","time":"2000-01-01T00:00:03.000Z","state":"expired","ttl":3}`)
	})
}

// TestNoGapAndNoDuplicate: while events come, subscriptions start. Each gets every number from its
// first one on.
func TestNoGapAndNoDuplicate(t *testing.T) {
	const events = 2000
	l := newLog(1)
	x := open(t, l.broker(), "", func(o *Options) { o.QueueBytes = 64 << 20; o.ReadBytes = 4 << 10 })
	l.post(0, `a s {"metric":0}`)
	ask(t, x, "true")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			next := -1
			s, err := x.Subscribe(t.Context(), parse(t, `host = "a"`), func(e *Event) error {
				_, err := fmt.Sscanf(string(e.data), `{"metric":%d}`, &next)
				return err
			})
			if err != nil || next < 0 {
				t.Errorf("no first event: %v", err)
				return
			}
			defer s.Close()
			for next < events {
				list, err := s.Next(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				for _, e := range list {
					next++
					if want := fmt.Sprintf(`"metric":%d}`, next); !strings.HasSuffix(string(e), want) {
						t.Errorf("got %s, want %s", e, want)
						return
					}
				}
			}
		})
	}
	for i := range events {
		l.post(0, fmt.Sprintf(`a s {"metric":%d}`, i+1))
	}
	group.Wait()
}

func TestSlowSubscriberIsDropped(t *testing.T) {
	timed(t, func(t *testing.T) {
		l := newLog(1)
		x := open(t, l.broker(), "", func(o *Options) { o.QueueBytes = 1000 })
		slow := must.Get(x.Subscribe(t.Context(), parse(t, "true"), nil))(t)
		other := must.Get(x.Subscribe(t.Context(), parse(t, `host = "b"`), nil))(t)
		for range 30 {
			l.post(0, `a s {}`)
		}
		l.post(0, `b s {}`)
		pass(time.Millisecond)
		if n := len(took(t, slow)); n == 0 || n > 20 {
			t.Errorf("the slow subscriber has %d events", n)
		}
		if _, err := slow.Next(t.Context()); !errors.Is(err, ErrSlow) || x.met.dropped.Get() != 1 {
			t.Errorf("error %v, %d dropped", err, x.met.dropped.Get())
		}
		if n := len(took(t, other)); n != 1 {
			t.Errorf("the other has %d events, want 1", n)
		}
		slow.Close()
		x.Close()
		check.ErrorIsf(t, check.Err(other.Next(t.Context())), ErrClosed, "after Close: error")
		other.Close()
	})
}
