// Package compare compares the records and the groups of two Kafka clusters by their content, because
// offsets of a copied record differ between clusters. Seb is such a cluster.
package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Options say what to compare.
type Options struct {
	From, To Cluster

	Topics  *regexp.Regexp // matches the topics of From; nil: all
	Exclude *regexp.Regexp // matches those that are left out; nil: none
	Groups  *regexp.Regexp // matches the groups of From; nil: all
	// Rename returns the name at To of a topic of From; nil: the same.
	Rename func(string) string

	IgnoreTimestamps bool  // for a topic of which the target sets the time
	Again            int64 // records that a group may read again

	// Progress is called with the offsets that were passed, of all. Calls may be concurrent. nil: none
	Progress func(passed, total int64)
	// TempDir is for files with the keys of compacted topics: 57 bytes for each record. "": that of the system
	TempDir string
}

// parallel is how many partitions are compared at the same time. Each needs up to 40 MiB.
const parallel = 2

// pair is a topic that both clusters have.
type pair struct {
	from, to topic
	result   *Topic
}

// check is one run.
type check struct {
	Options
	from, to *side

	mu            sync.Mutex // guards the fields below
	passed, total int64
	groups        []Group
}

// Check compares two clusters as they are when it starts. An error means that they could not be
// compared.
func Check(ctx context.Context, o Options) (*Result, error) {
	c := &check{Options: o}
	var err error
	if c.from, err = o.From.open("--from"); err != nil {
		return nil, fmt.Errorf("--from: %w", err)
	}
	defer c.from.client.Close()
	if c.to, err = o.To.open("--to"); err != nil {
		return nil, fmt.Errorf("--to: %w", err)
	}
	defer c.to.client.Close()
	names, err := c.names(ctx)
	if err != nil {
		return nil, err
	}
	result := &Result{Topics: make([]Topic, len(names)), Groups: []Group{}}
	pairs, err := c.pairs(ctx, names, result.Topics)
	if err != nil {
		return nil, err
	}
	positions, err := c.positions(ctx, names)
	if err != nil {
		return nil, err
	}
	if err := c.compare(ctx, pairs, positions); err != nil {
		return nil, err
	}
	result.Groups = append(result.Groups, c.groups...)
	slices.SortFunc(result.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	result.Equal = !slices.ContainsFunc(result.Topics, Topic.differs) &&
		!slices.ContainsFunc(result.Groups, func(g Group) bool { return g.Difference != "" })
	return result, nil
}

// names returns the topics to compare, in order.
func (c *check) names(ctx context.Context) ([]string, error) {
	listed, err := c.from.admin.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("--from: topics: %w", err)
	}
	var names []string
	for _, name := range listed.Names() {
		if matches(c.Topics, name) && (c.Exclude == nil || !matches(c.Exclude, name)) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, errors.New("--from: no topic matches")
	}
	return names, nil
}

func matches(pattern *regexp.Regexp, name string) bool {
	return pattern == nil || pattern.MatchString(name)
}

func (c *check) target(name string) string {
	if c.Rename == nil {
		return name
	}
	return c.Rename(name)
}

// pairs returns the topics that both clusters have with the same partitions. It sets the results of all.
func (c *check) pairs(ctx context.Context, names []string, results []Topic) ([]pair, error) {
	targets := make([]string, len(names))
	for n, name := range names {
		targets[n] = c.target(name)
	}
	from, err := c.from.topics(ctx, names)
	if err != nil {
		return nil, err
	}
	to, err := c.to.topics(ctx, targets)
	if err != nil {
		return nil, err
	}
	var pairs []pair
	for n, name := range names {
		x, there := from[name]
		if !there {
			return nil, fmt.Errorf("--from: topic %s was deleted during the check", name)
		}
		y, there := to[targets[n]]
		r := &results[n]
		*r = Topic{Name: name, Target: targets[n], Compacted: x.compacted || y.compacted, Partitions: []Partition{}}
		switch {
		case !there:
			r.Difference = fmt.Sprintf("--to does not have topic %s", targets[n])
		case len(x.spans) != len(y.spans):
			r.Difference = fmt.Sprintf("%d partitions at --from, %d at --to", len(x.spans), len(y.spans))
		default:
			r.Partitions = make([]Partition, len(x.spans))
			pairs = append(pairs, pair{x, y, r})
			for p := range x.spans {
				c.total += x.spans[p].end - x.spans[p].start + y.spans[p].end - y.spans[p].start
			}
		}
	}
	return pairs, nil
}

// compare compares all partitions of the pairs.
func (c *check) compare(ctx context.Context, pairs []pair, positions []position) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, p := range pairs {
		for n := range p.from.spans {
			g.Go(func() error { return c.partition(ctx, p, n, positions) })
		}
	}
	return g.Wait()
}

// partition compares a partition and the groups that have a position in it.
func (c *check) partition(ctx context.Context, p pair, n int, positions []position) error {
	x, y := p.from.spans[n], p.to.spans[n]
	result := &p.result.Partitions[n]
	result.Number = x.partition
	here := marked(positions, x)
	from, to := newStream(x.start, c.progress), newStream(y.start, c.progress)
	for _, h := range here {
		from.marks, to.marks = append(from.marks, &h.from), append(to.marks, &h.to)
	}
	g, ctx := errgroup.WithContext(ctx)
	hash := hasher{ignoreTimestamps: c.IgnoreTimestamps}
	g.Go(func() error { return from.run(ctx, &reader{side: c.from, span: x, hasher: hash}) })
	g.Go(func() error { return to.run(ctx, &reader{side: c.to, span: y, hasher: hash}) })
	// A stream also ends when its reader fails. Then the result does not count.
	g.Go(func() error {
		if p.result.Compacted {
			return c.keys(from, to, result)
		}
		a := newAligner(from, to, result)
		a.reread = func(start, end int64) (*stream, func()) {
			part := x
			part.start, part.end = max(x.start, start), end
			s := newStream(part.start, func(int64) {})
			ctx, stop := context.WithCancel(ctx)
			g.Go(func() error {
				if err := s.run(ctx, &reader{side: c.from, span: part, hasher: hash}); ctx.Err() == nil {
					return err
				}
				return nil // stopped, or another reader has failed
			})
			return s, stop
		}
		a.run(x.end)
		return nil
	})
	if err := g.Wait(); err != nil {
		return err
	}
	from.count(&result.From)
	to.count(&result.To)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range here {
		c.groups = append(c.groups, h.result(from.total, to.total, groupRules{p.result.Compacted, c.Again}))
	}
	return nil
}

// keys compares a partition of a compacted topic.
func (c *check) keys(from, to *stream, result *Partition) (err error) {
	dir, err := os.MkdirTemp(c.TempDir, "seb-migrate")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return compareKeys(dir, from, to, result)
}

func (c *check) progress(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passed += n
	if c.Progress != nil {
		c.Progress(c.passed, c.total)
	}
}

func (t Topic) differs() bool {
	return t.Difference != "" || slices.ContainsFunc(t.Partitions, func(p Partition) bool { return p.First != nil })
}
