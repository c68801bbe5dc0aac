package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sebbroker/seb/client"
)

// monthRun is one run of the month.
type monthRun struct {
	*processes
	o      *options
	rules  []rule
	client *client.Client
	out    io.Writer
}

// partitions is the number of partitions of the topic of events.
const partitions = 4

func (l *monthRun) begin(ctx context.Context, triggers string) error {
	_, err := l.client.CreateTopic(ctx, eventsFor, client.TopicSpec{Partitions: partitions, Settings: map[string]string{"timestamp-type": "append"}})
	if err != nil {
		return err
	}
	return l.apply(ctx, triggers)
}

// month sends the events of the users while broker and receiver are killed.
func (l *monthRun) month(ctx context.Context) error {
	all := month(l.o.users, l.o.seed, l.o.day)
	fmt.Fprintf(l.out, "%d users, %d events, %d triggers; a day is %v.\n", l.o.users, len(all), len(l.rules), l.o.day)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s := &sender{client: l.client, start: time.Now()}
	failed := make(chan error, 1)
	go func() {
		err := l.killProcesses(ctx, s.start, l.o.day)
		if err != nil {
			stop() // the sender must not wait for a broker that does not return
		}
		failed <- err
	}()
	fault := s.run(ctx, all)
	if err := errors.Join(<-failed, fault); err != nil {
		return err
	}
	fmt.Fprintf(l.out, "In %v: %d events sent, %d of them twice. kill -9 of the broker %d times, once its data folder was deleted too; of the receiver %d times.\n",
		time.Since(s.start).Round(time.Second), s.sent.Load(), s.again.Load(), l.kills["broker"], l.kills["receiver"])
	return nil
}

// stallTimeout is how long the run waits without progress before it reports missing mails.
const stallTimeout = time.Minute

// end waits until no delivery is pending, and compares the mails with the definitions.
func (l *monthRun) end(ctx context.Context) (*report, error) {
	log, err := readBack(ctx, l.client)
	if err != nil {
		return nil, err
	}
	want := expected(l.rules, log.histories)
	fmt.Fprintf(l.out, "The log has %d events in %d records; by the definitions they make %d mails.\n", log.events, log.records, len(want))
	until := log.last.Add(span(l.rules) + time.Second)
	if err := l.past(ctx, until, log.user); err != nil {
		return nil, err
	}
	undelivered, err := l.delivered(ctx)
	if err != nil {
		return nil, err
	}
	got, err := readMailbox(l.mailbox())
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return compared(l.rules, want, got, undelivered, l.processes), nil
}

// past waits until every trigger has processed an instant in every partition. An engine without a deadline
// does not advance, so past sends a last event, which no trigger mentions, to each partition.
func (l *monthRun) past(ctx context.Context, until time.Time, users map[int32]string) error {
	if err := sleepUntil(ctx, until); err != nil {
		return err
	}
	for _, user := range users {
		if _, err := l.client.ProduceEvent(ctx, client.Event{Name: "month_over", EntityID: user, ID: "end"}, client.EventOptions{Topic: eventsFor}); err != nil {
			return err
		}
	}
	for i := range l.rules {
		for _, user := range users {
			late := time.Now().Add(stallTimeout)
			for {
				x, err := l.client.Explain(ctx, l.rules[i].id, user)
				if err != nil {
					return err
				}
				if !x.AsOf.Before(until) {
					break
				}
				if time.Now().After(late) {
					return fmt.Errorf("trigger %s is at %v for %v, want %v", l.rules[i].id, x.AsOf, stallTimeout, until)
				}
				if err := sleepUntil(ctx, time.Now().Add(50*time.Millisecond)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// delivered waits until no firing is pending. It returns the firings that were retracted before the broker
// recorded a delivery.
func (l *monthRun) delivered(ctx context.Context) (undelivered map[mail]bool, err error) {
	before, since := -1, time.Now()
	for {
		undelivered = map[mail]bool{}
		open := 0
		for q := (client.FiringQuery{Limit: 1000}); ; {
			list, next, err := l.client.Firings(ctx, q)
			if err != nil {
				return nil, err
			}
			for i := range list {
				x := &list[i]
				if x.State == "computed" || x.State == "pending" {
					open++
				}
				if x.State == "retracted" || x.Retraction && !wasDelivered(x) {
					undelivered[mail{trigger: x.Trigger, entity: x.Entity, at: x.At.UnixMilli()}] = true
				}
			}
			if q.After = next; next == 0 {
				break
			}
		}
		if open == 0 {
			return undelivered, nil
		}
		if open != before {
			before, since = open, time.Now()
		} else if time.Since(since) > stallTimeout {
			return undelivered, nil // the comparison reports the missing mails
		}
		if err := sleepUntil(ctx, time.Now().Add(200*time.Millisecond)); err != nil {
			return nil, err
		}
	}
}

// wasDelivered reports whether a 2xx answer to the firing's message is recorded.
func wasDelivered(x *client.Firing) bool {
	var o struct{ Delivered int64 }
	return json.Unmarshal(x.Outcome, &o) == nil && o.Delivered != 0
}
