package history

import (
	"math/rand/v2"
	"slices"
)

// ideal is a correct log with groups: brokers replace one another, answers get lost, and effects
// come late. Its clients see a correct history by construction: each operation takes effect at one
// moment between its beginning and its end, or, if its outcome is unknown, later or never.
type ideal struct {
	*script
	rng    *rand.Rand
	log    []Run
	end    int64
	start  int64
	group  groupState
	epoch  uint32
	old    *ideal // the state of the previous epoch's broker
	open   []*running
	late   []*running // of unknown outcome, not yet effective
	next   map[int32]int64
	orders map[int32]int64 // lowest number that an ordered client may still append
	busy   map[int32]bool
	trims  bool // trims occur
}

// running is an operation in progress.
type running struct {
	Event
	id     int64
	is     *Event // its answer, after its effect
	chosen string // outcome that the client gets
}

// idealHistory returns a correct history of about n operations.
func idealHistory(seed uint64, n int) *ideal {
	x := &ideal{
		script: &script{}, rng: rand.New(rand.NewPCG(seed, 3)), group: groupState{at: None}, epoch: 1,
		next: map[int32]int64{}, busy: map[int32]bool{}, orders: map[int32]int64{},
		trims: seed%3 == 1,
	}
	for x.ops < int64(n) {
		switch x.rng.IntN(10) {
		case 0, 1, 2:
			x.begin()
		case 3, 4, 5:
			x.effect()
		case 6, 7, 8:
			x.finish()
		case 9:
			if x.rng.IntN(8) == 0 {
				x.takeover()
			}
		}
	}
	for len(x.open) > 0 {
		x.effect()
		x.finish()
	}
	x.old = nil
	for from := x.start; from < x.end; {
		got := x.from(from)
		x.both(Event{Do: Read, Client: 90, From: from}, Event{Is: OK, Epoch: x.epoch, Start: x.start, End: x.end, Got: got})
		last := got[len(got)-1]
		from = last[0] + last[3]
	}
	return x
}

func (x *ideal) takeover() {
	before := *x
	before.log = slices.Clone(x.log)
	x.old = &before
	x.epoch++
}

func (x *ideal) begin() {
	client := int32(1 + x.rng.IntN(5))
	if x.busy[client] {
		return
	}
	e := Event{Client: client}
	switch x.rng.IntN(8) {
	case 0, 1, 2:
		e.Do, e.Seq, e.N, e.Ordered = Append, x.next[client], int64(1+x.rng.IntN(4)), client == 1
		x.next[client] += e.N
		if x.rng.IntN(4) == 0 {
			e.Want = new(x.end - int64(x.rng.IntN(2)))
		}
	case 3, 4:
		e.Do, e.From = Read, x.start+x.rng.Int64N(x.end-x.start+2)
	case 5:
		e.Do, e.Group, e.To = Commit, "g", x.rng.Int64N(100)
		if x.rng.IntN(3) == 0 {
			e.Want = new(x.group.at)
		}
	case 6:
		e.Do, e.Group = Fetch, "g"
	case 7:
		if !x.trims || x.rng.IntN(6) > 0 || x.end == 0 {
			return
		}
		e.Do, e.To = Trim, x.rng.Int64N(x.end)
	}
	r := &running{Event: e, chosen: OK}
	if e.Do != Read && e.Do != Fetch {
		switch x.rng.IntN(6) {
		case 0:
			r.chosen = Unknown
		case 1:
			r.chosen = Rejected
		}
	}
	x.busy[client] = true
	r.id = x.do(e)
	x.open = append(x.open, r)
}

// effect lets an operation take effect: usually one in progress, sometimes one whose client has
// stopped waiting.
func (x *ideal) effect() {
	if n := len(x.late); n > 0 && x.rng.IntN(4) == 0 {
		i := x.rng.IntN(n)
		x.apply(x.late[i])
		x.late = slices.Delete(x.late, i, i+1)
		return
	}
	if len(x.open) == 0 {
		return
	}
	r := x.open[x.rng.IntN(len(x.open))]
	if r.is == nil && r.chosen != Rejected {
		x.apply(r)
	}
}

func (x *ideal) apply(r *running) {
	switch is := (Event{Is: OK, Epoch: x.epoch}); r.Do {
	case Append:
		r.is = x.append(r, is)
	case Read:
		r.is = x.answer(r, is)
	case Commit:
		if x.old != nil && r.Want != nil && *r.Want != x.old.group.at && x.rng.IntN(4) == 0 {
			r.is = &Event{Is: Rejected, Code: CodeMismatch, At: x.old.group.at, Epoch: x.old.epoch}
			return
		}
		if r.Want != nil && *r.Want != x.group.at {
			r.is = &Event{Is: Rejected, Code: CodeMismatch, At: x.group.at, Epoch: x.epoch}
			return
		}
		x.group = groupState{r.To, r.id}
		r.is = &is
	case Fetch:
		if x.old != nil && x.rng.IntN(4) == 0 {
			r.is = &Event{Is: OK, Epoch: x.old.epoch, At: x.old.group.at, By: x.old.group.by}
			return
		}
		is.At, is.By = x.group.at, x.group.by
		r.is = &is
	case Trim:
		x.start = max(x.start, r.To)
		is.Start = x.start
		r.is = &is
	}
}

func (x *ideal) append(r *running, is Event) *Event {
	if x.old != nil && r.Want != nil && *r.Want != x.old.end && x.rng.IntN(4) == 0 {
		return &Event{Is: Rejected, Code: CodeMismatch, At: x.old.end, Epoch: x.old.epoch}
	}
	if r.Want != nil && *r.Want != x.end {
		return &Event{Is: Rejected, Code: CodeMismatch, At: x.end, Epoch: x.epoch}
	}
	if r.Ordered && r.Seq < x.orders[r.Client] {
		return &Event{Is: Rejected, Code: "producer_fenced", Epoch: x.epoch}
	}
	if r.Ordered {
		x.orders[r.Client] = r.Seq + 1
	}
	is.At = x.end
	x.log = append(x.log, Run{x.end, int64(r.Client), r.Seq, r.N})
	x.end += r.N
	return &is
}

// answer reads, sometimes from a deposed broker.
func (x *ideal) answer(r *running, is Event) *Event {
	from := x
	if x.old != nil && x.rng.IntN(4) == 0 {
		from = x.old
	}
	is.Epoch = from.epoch
	if r.From < from.start {
		return &Event{Is: Failed, Epoch: from.epoch, Start: from.start}
	}
	is.End, is.Got = from.end, from.from(r.From)
	return &is
}

// from returns some of the records from an offset on, at least one if there is one.
func (x *ideal) from(offset int64) (got []Run) {
	for _, r := range x.log {
		if skip := offset - r[0]; skip > 0 && skip < r[3] {
			r = Run{r[0] + skip, r[1], r[2] + skip, r[3] - skip}
		}
		if r[0] >= offset && (len(got) == 0 || x.rng.IntN(8) > 0) {
			got = append(got, r)
		} else if len(got) > 0 {
			break
		}
	}
	return got
}

// finish ends one operation, with or without its answer.
func (x *ideal) finish() {
	if len(x.open) == 0 {
		return
	}
	i := x.rng.IntN(len(x.open))
	r := x.open[i]
	is := Event{Is: r.chosen, Code: "x"}
	switch r.chosen {
	case OK:
		if r.is == nil {
			return // not effective yet
		}
		is = *r.is
	case Unknown:
		if r.is == nil && r.Do != Trim {
			x.late = append(x.late, r)
		}
		is.Code = ""
	}
	x.open = slices.Delete(x.open, i, i+1)
	x.busy[r.Client] = false
	x.is(r.id, is)
}
