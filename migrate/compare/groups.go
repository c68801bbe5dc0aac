package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// position is where a group is in a partition of a topic of the source: its offsets in both clusters.
type position struct {
	group    string
	span     span // topic and partition at the source
	from, to int64
	atTarget bool // whether the target has an offset
}

// mark is a position in a stream. Offsets of copied records differ, so what follows it counts.
type mark struct {
	offset  int64 // committed
	before  int64 // records before it
	next    sum   // checksum of the next record
	hasNext bool  // whether there is one
}

// marks are those of a position.
type marks struct {
	position
	from, to mark
}

// marked returns the marks of the positions in a partition.
func marked(positions []position, sp span) (here []*marks) {
	for _, p := range positions {
		if p.span.topic == sp.topic && p.span.partition == sp.partition {
			here = append(here, &marks{position: p, from: mark{offset: p.from}, to: mark{offset: p.to}})
		}
	}
	return here
}

// positions returns the positions of the groups in topics.
func (c *check) positions(ctx context.Context, topics []string) ([]position, error) {
	listed, err := c.from.admin.ListGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("--from: groups: %w", err)
	}
	var names []string
	for _, name := range listed.Groups() {
		if matches(c.Groups, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, nil // without names the requests below mean all groups
	}
	from, err := c.from.committed(ctx, names)
	if err != nil {
		return nil, err
	}
	to, err := c.to.committed(ctx, names)
	if err != nil {
		return nil, err
	}
	var positions []position
	for _, group := range names {
		for _, o := range from[group].Sorted() {
			if !slices.Contains(topics, o.Topic) || o.At < 0 {
				continue
			}
			p := position{group: group, span: span{topic: o.Topic, partition: o.Partition}, from: o.At}
			if at, ok := to[group].Lookup(c.target(o.Topic), o.Partition); ok && at.At >= 0 {
				p.to, p.atTarget = at.At, true
			}
			positions = append(positions, p)
		}
	}
	return positions, nil
}

// committed returns the offsets of groups. A group that the cluster does not have has none.
func (s *side) committed(ctx context.Context, groups []string) (map[string]kadm.OffsetResponses, error) {
	offsets := map[string]kadm.OffsetResponses{}
	for _, r := range s.admin.FetchManyOffsets(ctx, groups...) {
		err := r.Err
		if err == nil {
			err = r.Fetched.Error()
		}
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return nil, fmt.Errorf("%s: offsets of group %s: %w", s.name, r.Group, err)
		}
		offsets[r.Group] = r.Fetched
	}
	return offsets, nil
}

// groupRules say when a position at the target is right.
type groupRules struct {
	compacted bool  // the next record counts, because compaction removes different records
	again     int64 // records that may be read again
}

// result compares the two marks. The arguments are the records of the partition in both clusters.
func (m *marks) result(fromTotal, toTotal int64, rules groupRules) Group {
	g := Group{
		Name: m.group, Topic: m.span.topic, Partition: m.span.partition,
		FromLeft: fromTotal - m.from.before, ToLeft: toTotal - m.to.before,
	}
	again := g.ToLeft - g.FromLeft
	switch {
	case !m.atTarget:
		g.ToLeft, g.Difference = -1, "--to has no offset"
	case !rules.compacted && again < 0:
		g.Difference = fmt.Sprintf("skips %d records", -again)
	case !rules.compacted && again > rules.again:
		g.Difference = fmt.Sprintf("reads %d records again", again)
	case (rules.compacted || again == 0) && (m.from.hasNext != m.to.hasNext || m.from.next != m.to.next):
		g.Difference = "the next record differs"
	}
	return g
}
