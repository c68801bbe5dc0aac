package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// group is a consumer group of orders with one member, which moves between clusters. It commits after each
// poll.
type group struct {
	name string

	mu    sync.Mutex // guards the fields below
	seen  [ordersPartitions][]bool
	count int64 // of numbers that were seen
}

// stage is what a group read in one cluster.
type stage struct {
	read    int64
	again   int64 // records that the group had read in an earlier stage
	doubled int64 // records that were at another offset before, because the copy has them twice
	rewound int64 // records that were at the same offset before
}

func (s *stage) String() string {
	return fmt.Sprintf("%d records read, %d again after the move, %d doubled by the copy, %d at the same offset", s.read, s.again, s.doubled, s.rewound)
}

// start makes the group read in a cluster. stop ends that, and returns what it read.
func (g *group) start(c *cluster) (stop func() (*stage, error), err error) {
	client, err := kgo.NewClient(c.options(kgo.ConsumerGroup(g.name), kgo.ConsumeTopics(orders), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	type result struct {
		*stage
		error
	}
	ended := make(chan result, 1)
	go func() {
		s, err := g.read(ctx, client)
		ended <- result{s, err}
	}()
	return func() (*stage, error) {
		cancel()
		r := <-ended
		client.Close()
		return r.stage, r.error
	}, nil
}

// read reads until ctx ends. Errors are those of brokers that are killed, which the client retries.
func (g *group) read(ctx context.Context, client *kgo.Client) (*stage, error) {
	var s stage
	var here [ordersPartitions]map[int64]bool // numbers
	var last [ordersPartitions]int64          // offsets
	for p := range here {
		here[p], last[p] = map[int64]bool{}, -1
	}
	for ctx.Err() == nil {
		client.PollRecords(ctx, 1000).EachRecord(func(r *kgo.Record) {
			n, p := number(r), r.Partition
			if n < 0 {
				return // of falsify
			}
			switch {
			case r.Offset <= last[p]:
				s.rewound++
			case here[p][n]:
				s.doubled++
			case !g.see(p, n):
				s.again++
			}
			s.read++
			here[p][n], last[p] = true, max(last[p], r.Offset)
		})
		if ctx.Err() == nil {
			_ = client.CommitUncommittedOffsets(ctx) // the next commit covers it
		}
	}
	return &s, client.CommitUncommittedOffsets(context.Background())
}

// see notes a number, and reports whether it is new.
func (g *group) see(p int32, n int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if missing := int(n) + 1 - len(g.seen[p]); missing > 0 {
		g.seen[p] = append(g.seen[p], make([]bool, missing)...)
	}
	if g.seen[p][n] {
		return false
	}
	g.seen[p][n] = true
	g.count++
	return true
}

// has returns how many numbers the group has seen.
func (g *group) has() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count
}

// again is a place where a copy has a number lower than the one before.
type again struct {
	partition int32
	before    int64 // the number after which it is
	number    int64
	records   int64 // that were there before
}

// copied is what a cluster has of orders.
type copied struct {
	offsets, numbers [ordersPartitions][]int64
	lost, disorder   int64
	doubled          int64
	agains           []again
}

// judge reads counts[p] records of each partition of orders, and compares them with the numbers that were
// written.
func (m *move) judge(ctx context.Context, c *cluster, counts [ordersPartitions]int64) (*copied, error) {
	var j copied
	start := map[string]map[int32]kgo.Offset{orders: {}}
	left := int64(0)
	for p, n := range counts {
		start[orders][int32(p)] = kgo.NewOffset().AtStart()
		left += n
	}
	client, err := kgo.NewClient(c.options(kgo.ConsumePartitions(start), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if err := errors.Join(ctx.Err(), fetches.Err0()); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if p := r.Partition; int64(len(j.numbers[p])) < counts[p] {
				j.offsets[p], j.numbers[p] = append(j.offsets[p], r.Offset), append(j.numbers[p], number(r))
				left--
			}
		})
	}
	for p := range counts {
		j.partition(int32(p), m.w.next[orders][p])
	}
	return &j, nil
}

// partition judges the numbers of a partition, of which written were written.
func (j *copied) partition(p int32, written int64) {
	seen, highest := make([]bool, written), int64(-1)
	var run *again
	for i, n := range j.numbers[p] {
		switch {
		case n < 0 || n >= written:
			j.disorder++
			continue
		case !seen[n] && n < highest:
			j.disorder++ // the first of its kind comes after later ones
		}
		if i > 0 && n <= j.numbers[p][i-1] {
			j.agains = append(j.agains, again{partition: p, before: j.numbers[p][i-1], number: n})
			run = &j.agains[len(j.agains)-1]
		}
		if seen[n] {
			j.doubled++
			if run != nil {
				run.records++
			}
		}
		seen[n], highest = true, max(highest, n)
	}
	for _, there := range seen {
		if !there {
			j.lost++
		}
	}
}

// at returns the number of the first record at an offset or after it, or that after the last one.
func (j *copied) at(p int32, offset int64) int64 {
	i, _ := slices.BinarySearch(j.offsets[p], offset)
	if i == len(j.numbers[p]) {
		return j.numbers[p][i-1] + 1
	}
	return j.numbers[p][i]
}

// keys compares the newest records of the keys of stock in a cluster with those that were written.
func (m *move) keys(ctx context.Context, c *cluster) (wrong int64, err error) {
	start := map[string]map[int32]kgo.Offset{stock: {}}
	for p := range int32(stockPartitions) {
		start[stock][p] = kgo.NewOffset().AtStart()
	}
	client, err := kgo.NewClient(c.options(kgo.ConsumePartitions(start), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	var got, dead [stockPartitions]map[string]int64
	for p := range got {
		got[p], dead[p] = map[string]int64{}, map[string]int64{}
	}
	for left := stockPartitions; left > 0; {
		fetches := client.PollFetches(ctx)
		if err := errors.Join(ctx.Err(), fetches.Err0()); err != nil {
			return 0, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			n, p, key := number(r), r.Partition, string(r.Key)
			delete(got[p], key)
			delete(dead[p], key)
			if r.Value == nil {
				dead[p][key] = n
			} else {
				got[p][key] = n
			}
			if n == m.w.next[stock][p]-1 {
				left--
			}
		})
	}
	for p, keys := range m.w.newest {
		for key, n := range keys { //tidy:unordered counts
			tombstone := n%tombstoneEvery == tombstoneEvery-1
			found, there := got[p][key]
			if tombstone == there || there && found != n {
				wrong++
			}
		}
	}
	return wrong, nil
}

// lag is what a group that does not read would do at the other cluster.
type lag struct {
	again, skipped int64
	none           int // partitions without an offset, which the group begins at the first record
}

func behind(ctx context.Context, name string, from, to *cluster, here, there *copied) (l lag, err error) {
	offsets := func(c *cluster) (r kadm.OffsetResponses, err error) {
		err = c.admin(func(a *kadm.Client) error {
			r, err = a.FetchOffsets(ctx, name)
			return err
		})
		return r, err
	}
	source, err := offsets(from)
	if err != nil {
		return l, err
	}
	target, err := offsets(to)
	if err != nil {
		return l, err
	}
	for p := range int32(ordersPartitions) {
		x, ok := source.Lookup(orders, p)
		if !ok || x.At < 0 {
			continue // as after a move without an offset
		}
		y, ok := target.Lookup(orders, p)
		if !ok || y.At < 0 {
			l.none++
			l.again += here.at(p, x.At)
		} else if n := here.at(p, x.At) - there.at(p, y.At); n > 0 {
			l.again += n
		} else {
			l.skipped -= n
		}
	}
	return l, nil
}
