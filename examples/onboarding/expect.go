package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/driplangtest"
)

// mail identifies a mail: a trigger sends at most one for a user and an instant.
type mail struct {
	trigger, entity string
	at              int64 // ms
	retracted       bool
}

// logged are the events in the log.
type logged struct {
	histories map[string][]driplangtest.Event // by user, without duplicates
	records   int
	events    int
	last      time.Time        // append time of the last event
	user      map[int32]string // one user of each partition
}

// sameFor is how long triggers ignore a duplicate of an event with an ID.
const sameFor = 24 * time.Hour

// readBack reads all events with their append times.
func readBack(ctx context.Context, c *client.Client) (*logged, error) {
	t, err := c.Topic(ctx, eventsFor)
	if err != nil {
		return nil, err
	}
	l := &logged{histories: map[string][]driplangtest.Event{}, user: map[int32]string{}}
	seen := map[[2]string]int64{}
	for _, p := range t.Partitions {
		for r, err := range c.Records(ctx, eventsFor, client.ReadOptions{Partition: p.Partition, Offset: client.Earliest}) {
			if err != nil {
				return nil, err
			}
			var e client.Event
			if err := json.Unmarshal(r.Value, &e); err != nil {
				return nil, err
			}
			l.records++
			if at := time.UnixMilli(r.Timestamp); at.After(l.last) {
				l.last = at
			}
			key := [2]string{e.EntityID, e.ID}
			if before, ok := seen[key]; ok && r.Timestamp-before <= sameFor.Milliseconds() {
				continue
			}
			seen[key] = r.Timestamp
			l.events++
			l.user[p.Partition] = e.EntityID
			l.histories[e.EntityID] = append(l.histories[e.EntityID], driplangtest.Event{Name: e.Name, At: r.Timestamp, Data: string(e.Data)})
		}
	}
	return l, nil
}

// expected returns all mails by the definitions of the expressions, each with its retraction or nil.
func expected(rules []rule, histories map[string][]driplangtest.Event) map[mail]*mail {
	all := map[mail]*mail{}
	for i := range rules {
		r := &rules[i]
		for entity, history := range histories {
			last, fired := int64(0), false
			for _, f := range r.expr.Firings(history, r.mode) {
				if fired && f.At < last+r.cooldown {
					continue // suppressed
				}
				last, fired = f.At, true
				m := mail{trigger: r.id, entity: entity, at: f.At}
				all[m] = nil
				if r.notify && f.IsGone {
					all[m] = &mail{trigger: r.id, entity: entity, at: f.Gone, retracted: true}
				}
			}
		}
	}
	return all
}

// span returns the time after the last event within which triggers can fire.
func span(rules []rule) (most time.Duration) {
	for i := range rules {
		most = max(most, time.Duration(rules[i].expr.Span())*time.Millisecond)
	}
	return most
}
