package main

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/client"
)

const (
	senders   = 8   // concurrent requests; each user has one sender, so that its events keep their order
	batchMax  = 500 // events in a request
	againOne  = 40  // every 40th request is sent twice, like a retry after a lost answer
	eventsFor = "events"
)

// sender sends each event when it is due.
type sender struct {
	client *client.Client
	start  time.Time
	sent   atomic.Int64 // events, each once
	again  atomic.Int64 // events that were sent twice on purpose
}

func (s *sender) run(ctx context.Context, all []action) error {
	bySender := make([][]action, senders)
	for _, h := range all {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(h.event.EntityID))
		i := hash.Sum32() % senders
		bySender[i] = append(bySender[i], h)
	}
	errs := make([]error, senders)
	var wg sync.WaitGroup
	for i, list := range bySender {
		wg.Go(func() { errs[i] = s.sendAll(ctx, list) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// sendAll sends the due events of list in one request, and the next request after these are stored.
func (s *sender) sendAll(ctx context.Context, list []action) error {
	for requests := 0; len(list) > 0; requests++ {
		if err := sleepUntil(ctx, s.start.Add(list[0].due)); err != nil {
			return err
		}
		var events []client.Event
		for since := time.Since(s.start); len(list) > 0 && list[0].due <= since && len(events) < batchMax; list = list[1:] {
			events = append(events, list[0].event)
		}
		// The client retries while no broker runs. That is safe because all events have an ID.
		if _, err := s.client.ProduceEvents(ctx, events, client.EventOptions{Topic: eventsFor}); err != nil {
			return err
		}
		s.sent.Add(int64(len(events)))
		if requests%againOne == 0 {
			if _, err := s.client.ProduceEvents(ctx, events, client.EventOptions{Topic: eventsFor}); err != nil {
				return err
			}
			s.again.Add(int64(len(events)))
		}
	}
	return nil
}

// sleepUntil waits until at, or returns the error of ctx if that ends before.
func sleepUntil(ctx context.Context, at time.Time) error {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
