package journalsim

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// attempt is one Put. Its body names it, so a body shows which Put an object is from.
type attempt struct {
	id    int
	p     *Process
	body  string
	loser bool // it was answered "exists"
}

// object is what processes were told about a name. All numbers are steps of the world.
//
//	unknown ---- stored, found, exists ----> known ---- a delete begins ----> deleting
//	known: every operation that begins later finds it, with the same body, also after power failures
//	deleting: operations decide; once one misses it, none that begins later finds it
//
// A power failure may bring a deleted name back: it is deleting again.
type object struct {
	bodies  map[string]*attempt
	tried   int // attempts that have begun
	open    int // of these, attempts that were not answered nil or "exists": they may take effect later
	winner  *attempt
	stored  int      // the last attempt was answered nil
	firm    bool     // it was known durable
	since   int      // known since; 0: not known
	deletes int      // running deletes
	touched int      // a delete ran until then; 0: none since it is known
	gone    int      // it was missed, or a delete returned; 0: neither
	mixed   bool     // puts and deletes ran at the same time, or it was put again: its winner is not checked
	old     *attempt // the winner before it was put again
	oldFrom int      // an operation that begins later does not read old
	damaged bool
}

// checker compares answers with what processes were told before:
//
//	D1  a name has one winner: it has the bytes of one Put, and every other Put fails
//	D2  a name that was acknowledged, or shown by a journal, is found by every operation that
//	    begins later, by each process, also after power failures
//	D3  nothing else is shown: no part of an object, no bytes of another run or position
//	D4  a deleted name comes back only after a power failure, also when it was put again meanwhile
//	D5  a Put needs no step of another process, and no process waits without end
//	D6  after a failed write or sync of its journal a process acknowledges nothing with it
//	D7  after a flipped bit, or in a file that was cut off or cleared, an acknowledged name is found, or an
//	    error names the damage; nothing else is called damage
type checker struct {
	w       *World
	objects map[string]*object // by folder and name
	broken  map[string]int     // by process and file: the step at which a write or sync failed
	ids     int

	ending sync.Mutex // serializes the goroutines of a killed process
}

// view is what an answer must take into account: what was known at the step at which it began.
type view struct {
	from  int
	owner bool // the process believed then that it owns the journal
}

func newChecker(w *World) *checker {
	return &checker{w: w, objects: map[string]*object{}, broken: map[string]int{}}
}

func key(folder, name string) string { return folder + "/" + name }

func (c *checker) object(k string) *object {
	o := c.objects[k]
	if o == nil {
		o = &object{bodies: map[string]*attempt{}}
		c.objects[k] = o
	}
	return o
}

// begin notes an attempt before its Put.
func (c *checker) begin(p *Process, k string, body func(id int) string) *attempt {
	c.ids++
	a := &attempt{id: c.ids, p: p, body: body(c.ids)}
	o := c.object(k)
	o.bodies[a.body] = a
	o.tried++
	o.open++
	o.gone = 0 // it may be there again
	o.mixed = o.mixed || o.deletes > 0 || o.touched > 0
	return a
}

// stored: the attempt was acknowledged. from is the step at which the Put began.
func (c *checker) stored(k string, a *attempt, from int) {
	o := c.object(k)
	o.open--
	o.stored = c.w.now
	switch {
	case o.deletes > 0 || o.touched > 0: // put again
		if o.touched > from || o.deletes > 0 { // in which order is not known
			o.touched, o.gone, o.winner = c.w.now, 0, nil
			return
		}
		*o = object{bodies: o.bodies, tried: o.tried, open: o.open, stored: o.stored, mixed: true, old: o.winner, oldFrom: c.w.now}
	case o.winner != nil && o.winner != a && !o.mixed:
		c.w.failf("D1: %s has two winners: attempt %d of process %d was stored, and attempt %d of process %d too", k, o.winner.id, o.winner.p.id, a.id, a.p.id)
		return
	}
	if a.loser && !o.mixed {
		c.w.failf("D1: %s: attempt %d was answered exists, and then stored", k, a.id)
	}
	o.winner = a
	c.known(o, true)
}

// known: an operation has shown that the object is there. From now on it stays, unless a delete runs.
func (c *checker) known(o *object, firm bool) {
	if o.deletes == 0 && (o.since == 0 || o.touched > 0) {
		o.since, o.touched, o.gone, o.firm = c.w.now, 0, 0, firm
	}
	o.firm = o.firm || firm && o.deletes == 0
}

// exists: a Put was told that another one has the name.
func (c *checker) exists(k string, a *attempt, v view) {
	o := c.object(k)
	if o.winner == a && o.touched == 0 && !o.mixed {
		c.w.failf("D1: %s: attempt %d of process %d is the object, but was answered exists", k, a.id, a.p.id)
	}
	a.loser = true
	o.open--
	if o.tried == 1 {
		c.w.failf("D1: %s: the first attempt was answered exists", k)
	}
	c.found(k, v, true)
}

// found: an operation of a process that began at a step has shown the name. The owner of a journal
// does not see deletes of other processes before it knows the end of its journal.
// A file has its name before the name is durable, so firm is false for what was found in a file.
func (c *checker) found(k string, v view, firm bool) {
	o := c.objects[k]
	if o == nil || o.tried == 0 {
		c.w.failf("D3: %s is there, but was never put", k)
		return
	}
	if (o.deletes > 0 || o.touched > 0) && v.owner {
		return
	}
	if o.gone > 0 && v.from > o.gone {
		c.w.failf("D4: %s was deleted (step %d) and is back (step %d)", k, o.gone, c.w.now)
	}
	if v.from > o.touched && o.gone == 0 {
		c.known(o, firm)
	}
}

// got: an operation that began at a step has read the object.
func (c *checker) got(k string, body []byte, v view, firm bool) {
	c.found(k, v, firm)
	o := c.object(k)
	a := o.bodies[string(body)]
	switch {
	case a == nil && o.damaged:
	case a == nil:
		c.w.failf("D3: %s has bytes that were never put (%d bytes, %s)", k, len(body), excerpt(body))
	case a == o.old && v.from > o.oldFrom && !v.owner:
		c.w.failf("D4: %s has the bytes of attempt %d, which was deleted before another one was stored (step %d)", k, a.id, o.oldFrom)
	case o.deletes > 0 || o.touched > 0 || o.mixed:
	case a.loser:
		c.w.failf("D1: %s has the bytes of attempt %d, which was answered exists", k, a.id)
	case o.winner == nil:
		o.winner = a
	case o.winner != a:
		c.w.failf("D1: %s has two winners: attempts %d of process %d and %d of process %d", k, o.winner.id, o.winner.p.id, a.id, a.p.id)
	}
}

func excerpt(b []byte) string { return fmt.Sprintf("%.40q", b) }

// missing: an operation that began at a step has not found the name.
func (c *checker) missing(k string, v view, where string) {
	o := c.objects[k]
	if o == nil {
		return
	}
	switch {
	case o.mixed && v.owner: // it may have been deleted and put again by others
	case o.deletes > 0 || o.touched > 0:
		if v.from > o.touched && o.deletes == 0 && o.open == 0 && o.gone == 0 {
			o.gone = c.w.now
		}
	case o.since > 0 && v.from > o.since && !o.damaged:
		c.w.failf("D2: %s is lost: known since step %d, missing in a %s that began at step %d", k, o.since, where, v.from)
	}
}

// listed checks a LIST of a folder that began at a step.
func (c *checker) listed(folder string, names, files []string, v view) {
	for _, k := range slices.Sorted(maps.Keys(c.objects)) {
		if dirOf(k) == folder && !slices.Contains(names, k[len(folder)+1:]) {
			c.missing(k, v, "LIST")
		}
	}
	for _, name := range names {
		c.found(key(folder, name), v, !slices.Contains(files, name))
	}
}

// deleting: a delete begins.
func (c *checker) deleting(k string) {
	o := c.object(k)
	o.deletes++
	o.mixed = o.mixed || o.open > 0
}

// deleted: a delete that began at a step has ended; ok if it was answered.
func (c *checker) deleted(k string, ok bool, from int) {
	c.ending.Lock()
	defer c.ending.Unlock()
	o := c.object(k)
	o.deletes--
	o.touched = c.w.now
	if ok && o.open == 0 && o.stored < from && o.gone == 0 {
		o.gone = c.w.now
	}
}

// powerFailure: deleted names may be back. All operations end.
func (c *checker) powerFailure() {
	for _, o := range c.objects {
		if o.deletes > 0 {
			o.deletes, o.touched = 0, c.w.now
		}
		if !o.firm {
			o.since, o.winner = 0, nil
		}
		if o.touched > 0 {
			o.touched, o.gone, o.old = c.w.now, 0, nil
		}
	}
}

// broke: a write or sync of a journal file has failed in a process.
func (c *checker) broke(p *Process, name string) {
	k := fmt.Sprint(p.id, " ", dirOf(name))
	if c.broken[k] == 0 {
		c.broken[k] = c.w.now
		c.w.tracef("%d   journal of %s has failed", p.id, name)
	}
}

// appended: a process was told by its journal at a step that an object is stored.
func (c *checker) appended(p *Process, files string, at int) {
	if step := c.broken[fmt.Sprint(p.id, " ", files)]; step > 0 && at > step {
		c.w.failf("D6: process %d acknowledged at step %d, but its journal %s had failed at step %d", p.id, at, files, step)
	}
}

// names returns the names of a folder that were ever put.
func (c *checker) names(folder string) []string {
	var names []string
	for _, k := range slices.Sorted(maps.Keys(c.objects)) {
		if dirOf(k) == folder {
			names = append(names, k[len(folder)+1:])
		}
	}
	return names
}
