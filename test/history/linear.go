package history

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Linearity is the result of Linear.
type Linearity struct {
	Checked   int // operations
	LeftOut   int // answers by deposed brokers, and operations without effect
	Undecided int // parts without a result within the limit
	Faults    []string
}

// Linear searches for an order of the operations of each partition, and of each group's offset in
// it, that explains every answer. A log is a list with its end, a group's offset a register. limit
// bounds the time for each. The cost grows quickly with concurrency, so this is for short
// histories. Everything must have been read to its end.
//
// Known facts reduce the search:
//
//	append of unknown outcome   its position is where it was read; if never read, it had no effect
//	trimmed partition           omitted, because unread records are unknown
//	answer of a deposed broker  omitted: it knows an earlier list, which Checker checks
//	repeated commit             its register is omitted, because it may have taken effect twice
func Linear(in io.Reader, limit time.Duration) (*Linearity, error) {
	p := parts{
		logs: map[int32]*ops{}, groups: map[registerKey]*ops{}, open: map[int64]*operation{}, offsets: map[[2]int64]int64{}, trimmed: map[int32]bool{},
		twice: map[registerKey]bool{},
	}
	if err := Scan(in, func(e *Event) error { p.add(e); return nil }); err != nil {
		return nil, err
	}
	p.finish()
	for part, list := range p.logs {
		if p.trimmed[part] {
			p.out.LeftOut += len(list.list)
			continue
		}
		p.check(fmt.Sprintf("partition %d", part), logModel(), list, limit)
	}
	for key, list := range p.groups {
		if p.twice[key] {
			p.out.LeftOut += len(list.list)
			continue
		}
		p.check(fmt.Sprintf("group %s, partition %d", key.group, key.part), groupModel(), list, limit)
	}
	slices.Sort(p.out.Faults)
	return &p.out, nil
}

// parts are the operations of a history by partition and register.
type parts struct {
	logs    map[int32]*ops
	groups  map[registerKey]*ops
	open    map[int64]*operation
	offsets map[[2]int64]int64 // client and sequence of a read record: its offset
	epoch   uint32
	maybe   []*operation // appends of unknown outcome
	out     Linearity

	trimmed map[int32]bool
	twice   map[registerKey]bool // a commit may have taken effect twice
}

type ops struct{ list []porcupine.Operation }

// asked and answered are the input and output of an operation.
type asked struct {
	do      string
	op      int64
	want    *int64
	client  int32
	seq, n  int64
	from    int64
	to      int64
	unknown bool
}

type answered struct {
	mismatch bool
	at       int64
	by       int64
	end      int64
	got      []Run
}

func (p *parts) add(e *Event) {
	switch {
	case e.Do != "":
		p.open[e.Op] = &operation{Event: *e, epoch: p.epoch}
		if e.Do == Trim {
			p.trimmed[e.Part] = true
		}
	case e.Is != "":
		o := p.open[e.Op]
		delete(p.open, e.Op)
		if o == nil {
			return
		}
		p.end(o, e)
		p.epoch = max(p.epoch, e.Epoch)
	}
}

func (p *parts) end(o *operation, e *Event) {
	for _, r := range e.Got {
		for i := range r[3] {
			p.offsets[[2]int64{r[1], r[2] + i}] = r[0] + i
		}
	}
	if o.Do == Commit && e.Again {
		p.twice[registerKey{o.Group, o.Part}] = true
	}
	stale := e.Epoch < o.epoch
	mismatch := e.Is == Rejected && e.Code == CodeMismatch && o.Want != nil && !stale
	switch {
	case o.Do == Append && e.Is == Unknown:
		p.maybe = append(p.maybe, o)
	case o.Do == Append && (e.Is == OK || mismatch):
		p.log(o, e.T, answered{mismatch: mismatch, at: e.At})
	case o.Do == Read && e.Is == OK && !stale && e.End > 0 && !e.Cut:
		p.log(o, e.T, answered{end: e.End, got: e.Got})
	case o.Do == Commit && e.Is == Unknown:
		p.group(o, math.MaxInt64, answered{})
	case o.Do == Commit && (e.Is == OK || mismatch):
		p.group(o, e.T, answered{mismatch: mismatch, at: e.At})
	case o.Do == Fetch && e.Is == OK && !stale:
		p.group(o, e.T, answered{at: e.At, by: e.By})
	default:
		p.out.LeftOut++
	}
}

// finish adds the operations that are still open.
func (p *parts) finish() {
	for _, o := range p.open {
		switch o.Do {
		case Append:
			p.maybe = append(p.maybe, o)
		case Commit:
			p.group(o, math.MaxInt64, answered{})
			key := registerKey{o.Group, o.Part}
			p.twice[key] = p.twice[key] || o.Again
		}
	}
	for _, o := range p.maybe {
		base, found := p.offsets[[2]int64{int64(o.Client), o.Seq}]
		if !found {
			p.out.LeftOut++
			continue
		}
		p.log(o, math.MaxInt64, answered{at: base})
	}
}

func (p *parts) log(o *operation, end int64, out answered) {
	l := p.logs[o.Part]
	if l == nil {
		l = &ops{}
		p.logs[o.Part] = l
	}
	l.add(o, end, out)
}

func (p *parts) group(o *operation, end int64, out answered) {
	key := registerKey{o.Group, o.Part}
	l := p.groups[key]
	if l == nil {
		l = &ops{}
		p.groups[key] = l
	}
	l.add(o, end, out)
}

func (l *ops) add(o *operation, end int64, out answered) {
	in := asked{
		do: o.Do, op: o.Op, want: o.Want, client: o.Client, seq: o.Seq, n: o.N, from: o.From, to: o.To, unknown: end == math.MaxInt64,
	}
	l.list = append(l.list, porcupine.Operation{ClientId: int(o.Client), Input: in, Call: o.T, Output: out, Return: end})
}

func (p *parts) check(name string, m porcupine.Model, l *ops, limit time.Duration) {
	p.out.Checked += len(l.list)
	switch porcupine.CheckOperationsTimeout(m, l.list, limit) {
	case porcupine.Illegal:
		p.out.Faults = append(p.out.Faults, fmt.Sprintf("%s: no order of its %d operations explains the answers", name, len(l.list)))
	case porcupine.Unknown:
		p.out.Undecided++
	}
}

// entry is a log after its last append; nil is the empty log. It is immutable.
type entry struct {
	before  *entry
	base, n int64
	client  int32
	seq     int64
	sum     uint64 // of this append and all before it
}

func (t *entry) end() int64 {
	if t == nil {
		return 0
	}
	return t.base + t.n
}

func (t *entry) hash() uint64 {
	if t == nil {
		return 0
	}
	return t.sum
}

// logModel is a list that appends extend.
func logModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return (*entry)(nil) },
		Step: func(state, input, output any) (bool, any) {
			t, in, out := state.(*entry), input.(asked), output.(answered)
			switch {
			case in.do == Read:
				return out.end == t.end() && t.holds(in.from, out.got), t
			case out.mismatch:
				return out.at == t.end() && out.at != *in.want, t
			case out.at != t.end() || in.want != nil && *in.want != out.at:
				return false, t
			}
			next := &entry{before: t, base: out.at, n: in.n, client: in.client, seq: in.seq}
			next.sum = mix(t.hash() ^ mix(identity(in.client, in.seq)) ^ uint64(in.n))
			return true, next
		},
		Equal: func(a, b any) bool {
			return a.(*entry).hash() == b.(*entry).hash() && a.(*entry).end() == b.(*entry).end()
		},
		Hash: func(a any) uint64 { return a.(*entry).hash() },
		DescribeOperation: func(input, output any) string {
			return fmt.Sprintf("%+v %+v", input, output)
		},
	}
}

// holds reports whether records equal those of the log from an offset on.
func (t *entry) holds(from int64, got []Run) bool {
	for i := len(got) - 1; i >= 0; i-- {
		r := got[i]
		for left := r[3]; left > 0; {
			offset, seq := r[0]+left-1, r[2]+left-1
			for t != nil && t.base > offset {
				t = t.before
			}
			if t == nil || offset >= t.end() || int64(t.client) != r[1] || t.seq+offset-t.base != seq {
				return false
			}
			left -= min(left, offset-t.base+1)
		}
	}
	return len(got) == 0 || from < 0 || got[0][0] == from
}

// groupState is a register: the committed offset and its operation.
type groupState struct{ at, by int64 }

// groupModel is a register with conditional writes.
func groupModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return groupState{at: None} },
		Step: func(state, input, output any) (bool, any) {
			s, in, out := state.(groupState), input.(asked), output.(answered)
			fits := in.want == nil || *in.want == s.at
			switch {
			case in.do == Fetch:
				return out.at == s.at && out.by == s.by, s
			case out.mismatch:
				return !fits && out.at == s.at, s
			case !fits:
				return in.unknown, s // it may have had no effect
			}
			return true, groupState{in.to, in.op}
		},
	}
}
