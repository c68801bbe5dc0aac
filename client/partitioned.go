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
	// partitionCountTTL bounds the age of a cached partition count. After partitions are added,
	// keys may still go to their previous partition for this time.
	partitionCountTTL = 30 * time.Second
	// partitionCountsMax bounds the topics with a cached partition count.
	partitionCountsMax = 4096
	// partitionWritesMax bounds the partitions that one call writes to concurrently.
	partitionWritesMax = 16
)

// partitionCounts caches the partition counts of topics.
type partitionCounts struct {
	mu sync.Mutex // guards m
	m  map[string]partitionCount
}

type partitionCount struct {
	n    int
	till time.Time
}

// partitions returns the partition count of a topic. It creates a missing topic with one partition.
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
	if c.counts.m == nil || len(c.counts.m) >= partitionCountsMax {
		c.counts.m = map[string]partitionCount{}
	}
	c.counts.m[topic] = partitionCount{n: len(t.Partitions), till: now.Add(partitionCountTTL)}
	return len(t.Partitions), nil
}

// produceByKey appends records to the partitions of their keys. Without idempotent producers, or
// with an expected offset, it leaves that to the broker, in one request.
func (c *Client) produceByKey(ctx context.Context, topic string, records []record.Record, o ProduceOptions) ([]ProduceResult, error) {
	if c.producers == nil || o.ExpectedOffset != nil {
		body, err := encodeJSONLines(records)
		if err != nil {
			return nil, rejected(err)
		}
		return c.post(ctx, topic, &request{header: map[string]string{"Content-Type": api.NDJSON}, body: body}, int64(len(records)), o)
	}
	n, err := c.partitions(ctx, topic)
	if err != nil {
		if e, ok := errors.AsType[*Error](err); ok {
			e.Outcome = OutcomeRejected
		}
		return nil, err
	}
	parts := map[int32][]record.Record{}
	for i := range records {
		p := record.PartitionOf(records[i].Key, n)
		parts[p] = append(parts[p], records[i])
	}
	var list []partitionPart
	for _, p := range slices.Sorted(maps.Keys(parts)) {
		body, err := encodeBatches(parts[p])
		if err != nil {
			return nil, rejected(err)
		}
		list = append(list, partitionPart{partition: p, count: int64(len(parts[p])), body: body})
	}
	var wg sync.WaitGroup
	room := make(chan struct{}, partitionWritesMax)
	for i := range list {
		room <- struct{}{}
		wg.Go(func() {
			p := &list[i]
			p.produced, p.err = c.ProduceBatches(ctx, topic, p.body, ProduceOptions{Partition: &p.partition})
			<-room
		})
	}
	wg.Wait()
	produced, err := joinResults(list)
	if errors.Is(err, ErrUnknownPartition) || errors.Is(err, ErrUnknownTopic) {
		c.counts.mu.Lock()
		delete(c.counts.m, topic)
		c.counts.mu.Unlock()
	}
	return produced, err
}

// partitionPart is the part of a call for one partition.
type partitionPart struct {
	partition int32
	count     int64
	body      []byte
	produced  []ProduceResult
	err       error
}

// joinResults combines the results of all partitions. As in the broker's answers, "rejected"
// applies to all records. If the outcomes differ, the outcome is unknown, and the results have the
// details.
func joinResults(list []partitionPart) ([]ProduceResult, error) {
	results := make([]ProduceResult, len(list))
	var first *Error
	maybe := false
	for i := range list {
		p := &list[i]
		if p.err == nil {
			results[i] = p.produced[0]
			maybe = true
			continue
		}
		e := p.err.(*Error) // every error of a request is an *Error
		results[i] = ProduceResult{Partition: p.partition, First: -1, Count: p.count, Code: e.Code}
		if e.Outcome == OutcomeUnknown {
			maybe = true
			results[i].Code = string(api.OutcomeUnknown)
		}
		if results[i].Code == "" {
			results[i].Code = string(api.StoreUnavailable) // the request was never sent
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
