package group

import (
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
)

// subscription is a member's subscription in the consumer protocol.
type subscription struct {
	names    []string
	pattern  string
	regexp   *regexp.Regexp // compiled pattern, nil if that is ""
	steps    int64          // size of the compiled pattern
	assignor string
}

// Memory estimates, rounded up.
const (
	nameCost = 64
	stepCost = 64
	// partitionCost is the cost of a partition in targets, assignments and owners.
	partitionCost = 256
)

func (w *subscription) bytes() int64 {
	n := int64(len(w.assignor)+len(w.pattern)) + w.steps*stepCost
	for _, name := range w.names {
		n += nameCost + int64(len(name))
	}
	return n
}

// updated returns the subscription after a request, of at most limit bytes.
func (w subscription) updated(r *HeartbeatRequest, limit int64) (subscription, Code) {
	if r.Names != nil {
		w.names = slices.Clone(r.Names)
	}
	if r.Assignor != "" {
		w.assignor = r.Assignor
	}
	if r.Pattern == nil || *r.Pattern == w.pattern {
		return w, w.within(limit)
	}
	w.pattern, w.regexp, w.steps = *r.Pattern, nil, int64(len(*r.Pattern))
	if code := w.within(limit); code != OK || w.pattern == "" { // parsing takes as much memory
		return w, code
	}
	tree, err := syntax.Parse(w.pattern, syntax.Perl)
	if err != nil {
		return w, InvalidRegularExpression
	}
	w.steps = steps(tree, limit)
	if code := w.within(limit); code != OK {
		return w, code
	}
	if w.regexp, err = regexp.Compile("^(?:" + tree.String() + ")$"); err != nil {
		return w, InvalidRegularExpression
	}
	return w, OK
}

func (w *subscription) within(limit int64) Code {
	if w.bytes() > limit {
		return GroupMaxSizeReached
	}
	return OK
}

// steps is the size of a compiled pattern, with repetitions written out, capped at about limit.
func steps(tree *syntax.Regexp, limit int64) int64 {
	n := 1 + int64(len(tree.Rune))
	for _, sub := range tree.Sub {
		n = min(limit, n+steps(sub, limit))
	}
	if tree.Op == syntax.OpRepeat {
		n = min(limit, n*int64(1+max(tree.Min, tree.Max)))
	}
	return n
}

// knownTopics is the existing topics that the members of a group subscribe to.
type knownTopics struct {
	topics     map[string]TopicInfo
	subscribed [][]string // by member, sorted
	watched    []string   // names in subscriptions and topics that match a pattern, sorted
	patterns   bool       // a member has a pattern
	all        []string   // all topics, if patterns is set
	bytes      int64
}

// resolveTopics resolves the subscriptions of members.
func resolveTopics(members []*consumer, t Topics) knownTopics {
	o := knownTopics{topics: map[string]TopicInfo{}}
	watched := map[string]bool{}
	for _, m := range members {
		names := slices.Clone(m.subscription.names)
		if m.subscription.regexp != nil {
			if !o.patterns {
				o.patterns, o.all = true, t.Names()
			}
			names = append(names, matching(m.subscription.regexp, o.all)...)
		}
		slices.Sort(names)
		names = slices.Compact(names)
		for _, name := range names {
			watched[name] = true
			if _, ok := o.topics[name]; ok {
				continue
			}
			if info, ok := t.Topic(name); ok {
				o.topics[name] = info
				o.bytes += int64(info.Partitions) * partitionCost
			}
		}
		names = slices.DeleteFunc(names, func(name string) bool { _, ok := o.topics[name]; return !ok })
		o.subscribed = append(o.subscribed, names)
		o.bytes += int64(len(names)) * nameCost
	}
	o.watched = slices.Sorted(maps.Keys(watched))
	o.bytes += int64(len(o.watched)+len(o.all)) * nameCost
	return o
}

func matching(pattern *regexp.Regexp, names []string) []string {
	var match []string
	for _, name := range names {
		if pattern.MatchString(name) {
			match = append(match, name)
		}
	}
	return match
}

// unchanged reports whether the topics are unchanged.
func (o *knownTopics) unchanged(t Topics) bool {
	for _, name := range o.watched {
		info, ok := t.Topic(name)
		if was, had := o.topics[name]; ok != had || info != was {
			return false
		}
	}
	return !o.patterns || slices.Equal(o.all, t.Names())
}

// names lists the topics with subscribers.
func (o *knownTopics) names() []string { return slices.Sorted(maps.Keys(o.topics)) }
