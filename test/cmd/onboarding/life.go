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

// life is one run.
type life struct {
	*world
	o      *options
	rules  []rule
	client *client.Client
	out    io.Writer
}

// partitions of the topic of events: users are spread over them.
const partitions = 4

func (l *life) begin(ctx context.Context, triggers string) error {
	_, err := l.client.CreateTopic(ctx, eventsFor, client.TopicSpec{Partitions: partitions, Settings: map[string]string{"timestamp-type": "append"}})
	if err != nil {
		return err
	}
	return l.apply(ctx, triggers)
}

// month sends what users do, while broker and receiver are killed.
func (l *life) month(ctx context.Context) error {
	all := month(l.o.users, l.o.seed, l.o.day)
	fmt.Fprintf(l.out, "%d users, %d events, %d triggers; a day is %v.\n", l.o.users, len(all), len(l.rules), l.o.day)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s := &sender{client: l.client, start: time.Now()}
	failed := make(chan error, 1)
	go func() {
		err := l.suffer(ctx, s.start, l.o.day)
		if err != nil {
			stop() // who sends waits for nobody
		}
		failed <- err
	}()
	watch, unwatch := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		l.show(watch, "a month", len(all), func() int { return int(s.sent.Load()) })
	}()
	fault := s.run(ctx, all)
	unwatch()
	<-watched
	if err := errors.Join(<-failed, fault); err != nil {
		return err
	}
	fmt.Fprintf(l.out, "In %v: %d events sent, %d of them twice. kill -9 of the broker %d times, once its data folder was deleted too; of the receiver %d times.\n",
		time.Since(s.start).Round(time.Second), s.sent.Load(), s.again.Load(), l.kills["broker"], l.kills["receiver"])
	return nil
}

// show draws how far something is, until ctx ends.
func (l *life) show(ctx context.Context, what string, most int, now func() int) {
	bar := l.o.bar(what, most)
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		select {
		case <-tick.C:
			_ = bar.Set(now())
		case <-ctx.Done():
			tick.Stop()
			_ = bar.Finish()
			return
		}
	}
}

// patience is how long nothing may change before what has not come is taken for missing.
const patience = time.Minute

// end waits until nothing is to be delivered any more, and compares.
func (l *life) end(ctx context.Context) (*report, error) {
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
	unheard, err := l.delivered(ctx, len(want))
	if err != nil {
		return nil, err
	}
	got, err := readMailbox(l.mailbox())
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return compared(l.rules, want, got, unheard, l.world), nil
}

// past waits until every trigger has seen an instant go by, in every partition. An engine that waits for nothing stands still: a
// last event in each partition, of which no trigger knows, has it look at the time.
func (l *life) past(ctx context.Context, until time.Time, users map[int32]string) error {
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
			late := time.Now().Add(patience)
			for {
				x, err := l.client.Explain(ctx, l.rules[i].id, user)
				if err != nil {
					return err
				}
				if !x.AsOf.Before(until) {
					break
				}
				if time.Now().After(late) {
					return fmt.Errorf("trigger %s is at %v for %v, want %v", l.rules[i].id, x.AsOf, patience, until)
				}
				if err := sleepUntil(ctx, time.Now().Add(50*time.Millisecond)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// delivered waits until no firing is to be delivered, and returns those that were taken back before the broker knows of anybody
// who has heard of them.
func (l *life) delivered(ctx context.Context, most int) (unheard map[mail]bool, err error) {
	bar := l.o.bar("mails", most)
	defer func() { _ = bar.Finish() }()
	before, since := -1, time.Now()
	for {
		unheard = map[mail]bool{}
		open, all := 0, 0
		for q := (client.FiringQuery{Limit: 1000}); ; {
			list, next, err := l.client.Firings(ctx, q)
			if err != nil {
				return nil, err
			}
			for i := range list {
				x := &list[i]
				all++
				if x.State == "computed" || x.State == "pending" {
					open++
				}
				if x.State == "retracted" || x.Retraction && !heard(x) {
					unheard[mail{trigger: x.Trigger, entity: x.Entity, at: x.At.UnixMilli()}] = true
				}
			}
			if q.After = next; next == 0 {
				break
			}
		}
		_ = bar.Set(all - open)
		if open == 0 {
			return unheard, nil
		}
		if open != before {
			before, since = open, time.Now()
		} else if time.Since(since) > patience {
			return unheard, nil // the comparison says what is missing
		}
		if err := sleepUntil(ctx, time.Now().Add(200*time.Millisecond)); err != nil {
			return nil, err
		}
	}
}

// heard says whether the message of a firing was answered 2xx, before that which takes it back.
func heard(x *client.Firing) bool {
	var o struct{ Delivered int64 }
	return json.Unmarshal(x.Outcome, &o) == nil && o.Delivered != 0
}
