package client

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
)

const (
	// countKeep is how long the number of a topic's partitions is believed. Where more were added, a key may for so long
	// still go where it went before.
	countKeep = 30 * time.Second
	// countsMax bounds the topics whose number of partitions is kept.
	countsMax = 4096
	// spreadMax is how many partitions one call writes to at the same time.
	spreadMax = 16
)

// partitionCounts remembers how many partitions topics have.
type partitionCounts struct {
	mu sync.Mutex // guards m
	m  map[string]partitionCount
}

type partitionCount struct {
	n    int
	till time.Time
}

// partitions returns how many partitions a topic has; one that is not there yet is made with one.
func (c *Client) partitions(ctx context.Context, topic string) (int, error) {
	now := time.Now()
	c.counts.mu.Lock()
	known := c.counts.m[topic]
	c.counts.mu.Unlock()
	if now.Before(known.till) {
		return known.n, nil
	}
	t, err := c.Topic(ctx, topic)
	if errors.Is(err, ErrUnknownTopic) {
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	c.counts.mu.Lock()
	defer c.counts.mu.Unlock()
	if c.counts.m == nil || len(c.counts.m) >= countsMax {
		c.counts.m = map[string]partitionCount{}
	}
	c.counts.m[topic] = partitionCount{n: len(t.Partitions), till: now.Add(countKeep)}
	return len(t.Partitions), nil
}

// spread appends records to the partitions of their keys. Without lanes that is the broker's to do, in one request.
func (c *Client) spread(ctx context.Context, topic string, records []record.Record, o ProduceOptions) ([]Placed, error) {
	if c.lanes == nil || o.ExpectedOffset != nil {
		body, err := encodeJSONLines(records)
		if err != nil {
			return nil, rejected(err)
		}
		return c.post(ctx, topic, &request{header: map[string]string{"Content-Type": api.NDJSON}, body: body}, int64(len(records)), o)
	}
	n, err := c.partitions(ctx, topic)
	if err != nil {
		var e *Error
		if errors.As(err, &e) {
			e.Outcome = OutcomeRejected
		}
		return nil, err
	}
	parts := map[int32][]record.Record{}
	for i := range records {
		p := record.PartitionOf(records[i].Key, n)
		parts[p] = append(parts[p], records[i])
	}
	var list []spreadPart
	for _, p := range slices.Sorted(maps.Keys(parts)) {
		body, err := encodeBatches(parts[p])
		if err != nil {
			return nil, rejected(err)
		}
		list = append(list, spreadPart{partition: p, count: int64(len(parts[p])), body: body})
	}
	var wg sync.WaitGroup
	room := make(chan struct{}, spreadMax)
	for i := range list {
		room <- struct{}{}
		wg.Go(func() {
			p := &list[i]
			p.placed, p.err = c.ProduceBatches(ctx, topic, p.body, ProduceOptions{Partition: &p.partition})
			<-room
		})
	}
	wg.Wait()
	placed, err := joined(list)
	if errors.Is(err, ErrUnknownPartition) || errors.Is(err, ErrUnknownTopic) {
		c.counts.mu.Lock()
		delete(c.counts.m, topic)
		c.counts.mu.Unlock()
	}
	return placed, err
}

// spreadPart is what one partition gets of a spread.
type spreadPart struct {
	partition int32
	count     int64
	body      []byte
	placed    []Placed
	err       error
}

// joined makes one answer of those of all partitions. As with the broker's own, rejected means all of it; what did not
// end alike is unknown as a whole, and its results tell more.
func joined(list []spreadPart) ([]Placed, error) {
	results := make([]Placed, len(list))
	var first *Error
	maybe := false
	for i := range list {
		p := &list[i]
		if p.err == nil {
			results[i] = p.placed[0]
			maybe = true
			continue
		}
		e := p.err.(*Error) // every error of a request is one
		results[i] = Placed{Partition: p.partition, First: -1, Count: p.count, Code: e.Code}
		if e.Outcome == OutcomeUnknown {
			maybe = true
			results[i].Code = string(api.OutcomeUnknown)
		}
		if results[i].Code == "" {
			results[i].Code = string(api.StoreUnavailable) // it was never sent
		}
		if first == nil || e.Outcome == OutcomeUnknown {
			first = e
		}
	}
	if first == nil {
		return results, nil
	}
	if len(list) > 1 {
		whole := *first
		whole.Results = results
		if maybe {
			whole.Outcome = OutcomeUnknown
		}
		first = &whole
	}
	return nil, first
}
