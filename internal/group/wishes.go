package group

import (
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
)

// wishes is what a member of the consumer protocol says about itself.
type wishes struct {
	names    []string
	pattern  string
	regexp   *regexp.Regexp // of pattern, nil if that is ""
	steps    int64          // of the regexp
	assignor string
}

// What things take, roughly and rather too much.
const (
	nameCost = 64
	stepCost = 64
	// partitionCost is for a partition in targets, assignments and owners.
	partitionCost = 256
)

func (w *wishes) bytes() int64 {
	n := int64(len(w.assignor)+len(w.pattern)) + w.steps*stepCost
	for _, name := range w.names {
		n += nameCost + int64(len(name))
	}
	return n
}

// told is what a member wishes after a request, within bytes.
func (w wishes) told(r *HeartbeatRequest, most int64) (wishes, Code) {
	if r.Names != nil {
		w.names = slices.Clone(r.Names)
	}
	if r.Assignor != "" {
		w.assignor = r.Assignor
	}
	if r.Pattern == nil || *r.Pattern == w.pattern {
		return w, w.within(most)
	}
	w.pattern, w.regexp, w.steps = *r.Pattern, nil, int64(len(*r.Pattern))
	if code := w.within(most); code != OK || w.pattern == "" { // before it is parsed, which takes as much
		return w, code
	}
	tree, err := syntax.Parse(w.pattern, syntax.Perl)
	if err != nil {
		return w, InvalidRegularExpression
	}
	w.steps = steps(tree, most)
	if code := w.within(most); code != OK {
		return w, code
	}
	if w.regexp, err = regexp.Compile("^(?:" + tree.String() + ")$"); err != nil {
		return w, InvalidRegularExpression
	}
	return w, OK
}

func (w *wishes) within(most int64) Code {
	if w.bytes() > most {
		return GroupMaxSizeReached
	}
	return OK
}

// steps is how large a pattern becomes when it is compiled, repetitions being written out: at most about most.
func steps(tree *syntax.Regexp, most int64) int64 {
	n := 1 + int64(len(tree.Rune))
	for _, sub := range tree.Sub {
		n = min(most, n+steps(sub, most))
	}
	if tree.Op == syntax.OpRepeat {
		n = min(most, n*int64(1+max(tree.Min, tree.Max)))
	}
	return n
}

// outlook is the topics that there are for the members of a group.
type outlook struct {
	topics     map[string]TopicInfo
	subscribed [][]string // by member, sorted
	watched    []string   // names that members have said, whether or not there is a topic, and topics that match a pattern, sorted
	patterns   bool       // some member has one
	all        []string   // all topics, if so
	bytes      int64
}

// look finds what topics there are now for members.
func look(members []*consumer, t Topics) outlook {
	o := outlook{topics: map[string]TopicInfo{}}
	watched := map[string]bool{}
	for _, m := range members {
		names := slices.Clone(m.wishes.names)
		if m.wishes.regexp != nil {
			if !o.patterns {
				o.patterns, o.all = true, t.Names()
			}
			names = append(names, matching(m.wishes.regexp, o.all)...)
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

// holds says whether topics are as they were.
func (o *outlook) holds(t Topics) bool {
	for _, name := range o.watched {
		info, ok := t.Topic(name)
		if was, had := o.topics[name]; ok != had || info != was {
			return false
		}
	}
	return !o.patterns || slices.Equal(o.all, t.Names())
}

// names lists the topics that somebody is subscribed to.
func (o *outlook) names() []string { return slices.Sorted(maps.Keys(o.topics)) }
