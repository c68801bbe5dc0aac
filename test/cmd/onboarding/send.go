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
	lanes     = 8   // requests under way at once; the events of a user go by one of them, and so keep their order
	batchMax  = 500 // events in a request
	againOne  = 40  // of so many requests one is sent twice, as by somebody who has not heard the answer
	eventsFor = "events"
)

// sender sends events when they are due.
type sender struct {
	client *client.Client
	start  time.Time
	sent   atomic.Int64 // events, each once
	again  atomic.Int64 // events that were sent twice on purpose
}

func (s *sender) run(ctx context.Context, all []happening) error {
	byLane := make([][]happening, lanes)
	for _, h := range all {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(h.event.EntityID))
		i := hash.Sum32() % lanes
		byLane[i] = append(byLane[i], h)
	}
	faults := make([]error, lanes)
	var wg sync.WaitGroup
	for i, list := range byLane {
		wg.Go(func() { faults[i] = s.lane(ctx, list) })
	}
	wg.Wait()
	return errors.Join(faults...)
}

// lane sends what is due in one request, and the next once that is stored.
func (s *sender) lane(ctx context.Context, list []happening) error {
	for requests := 0; len(list) > 0; requests++ {
		if err := sleepUntil(ctx, s.start.Add(list[0].due)); err != nil {
			return err
		}
		var events []client.Event
		for since := time.Since(s.start); len(list) > 0 && list[0].due <= since && len(events) < batchMax; list = list[1:] {
			events = append(events, list[0].event)
		}
		// While there is no broker the client tries again: all events have an id, so that this does no harm.
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

// sleepUntil waits for an instant; ctx's error if it ends before.
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
