package history

import "slices"

// register is what is known of one offset of a group. A fetch must return what the last commit
// before it wrote, or a concurrent commit. A commit of unknown outcome stays concurrent. Commits
// are identified by the number of their operation, which they carry as metadata.
type register struct {
	commits map[int64]*commit
	live    []*commit // not known to be overwritten
}

// commit is one write to a register. The initial empty value has operation 0.
type commit struct {
	op     int64
	offset int64
	begin  int64
	done   int64 // when it is known to have taken effect; before that never
	failed bool
	again  bool // it may take effect once more, so nothing overwrites it permanently
	over   []overwrite
}

// overwrite is the moment from which brokers of an epoch and of later ones must not return a
// commit.
type overwrite struct {
	at    int64
	epoch uint32
}

const never = 1<<63 - 1

func (c *Checker) register(o *operation) *register {
	key := registerKey{o.Group, o.Part}
	r := c.registers[key]
	if r == nil {
		nothing := &commit{offset: None}
		r = &register{commits: map[int64]*commit{0: nothing}, live: []*commit{nothing}}
		c.registers[key] = r
	}
	return r
}

func (r *register) begin(c *Checker, o *operation) {
	w := &commit{op: o.Op, offset: o.To, begin: c.now, done: never, again: o.Again}
	r.commits[o.Op] = w
	r.live = append(r.live, w)
}

// committed processes the end of a commit.
func (c *Checker) committed(o *operation, e *Event) {
	r := c.register(o)
	w := r.commits[o.Op]
	w.again = e.Again
	switch e.Is {
	case OK:
		c.stats.Commits++
		r.happened(w, e.Epoch, c.now)
	case Rejected:
		w.failed = true
		r.live = slices.DeleteFunc(r.live, func(v *commit) bool { return v == w })
		if o.Want != nil && e.Code == CodeMismatch && e.At == *o.Want {
			c.fail(RuleWant, o.Part, "a commit that requires %d was refused, although that is committed", e.At)
		}
	}
}

// happened records that w took effect before now. All commits that had ended when it began are
// overwritten, for brokers that know it.
func (r *register) happened(w *commit, epoch uint32, now int64) {
	w.done = min(w.done, now)
	r.live = slices.DeleteFunc(r.live, func(v *commit) bool {
		if v.done >= w.begin || v == w || v.again {
			return false
		}
		v.over = append(v.over, overwrite{now, epoch})
		// A broker of an older epoch may still answer with it, until an overwriting commit of that
		// epoch. A commit that several epochs have overwritten is removed.
		return len(v.over) >= marksKept
	})
}

// fetched processes the end of a fetch.
func (c *Checker) fetched(o *operation, e *Event) {
	if e.Is != OK {
		return
	}
	c.stats.Fetches++
	r := c.register(o)
	w := r.commits[e.By]
	switch {
	case w == nil:
		c.fail(RuleGroup, o.Part, "group %s has %d by operation %d, which is not a commit of the group", o.Group, e.At, e.By)
		return
	case w.offset != e.At:
		c.fail(RuleGroup, o.Part, "group %s has %d by operation %d, which committed %d", o.Group, e.At, e.By, w.offset)
		return
	case w.failed:
		c.fail(RuleAborted, o.Part, "group %s has %d by operation %d, which was rejected", o.Group, e.At, e.By)
		return
	}
	for _, v := range w.over {
		if v.at < o.T && v.epoch <= e.Epoch && e.Epoch > 0 {
			c.fail(RuleGroup, o.Part, "group %s has %d by operation %d according to epoch %d; epoch %d had overwritten it %dns before the request",
				o.Group, e.At, e.By, e.Epoch, v.epoch, o.T-v.at)
			return
		}
	}
	r.happened(w, e.Epoch, c.now)
}

func (c *Checker) progressOf(o *operation) *stream {
	key := registerKey{o.Group, o.Part}
	if c.progress[key] == nil {
		c.progress[key] = &stream{part: o.Part}
	}
	return c.progress[key]
}

// progressed processes the end of a fetch of a group's progress.
func (c *Checker) progressed(o *operation, e *Event) {
	if e.Is != OK {
		return
	}
	c.stats.Fetches++
	at := max(e.At, 0)
	if least := floor(&o.marks, e.Epoch); at < least.end {
		c.fail(RuleBack, o.Part, "group %s has %d according to epoch %d; a broker of no newer epoch answered %d before the request", o.Group, at, e.Epoch, least.end)
	}
	if given := c.given[registerKey{o.Group, o.Part}]; at > given {
		c.fail(RuleBack, o.Part, "group %s has %d, but got only records below %d", o.Group, at, given)
	}
	c.progressOf(o).raise(e.Epoch, at, 0)
}
