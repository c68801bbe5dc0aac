// Package budget bounds the memory of a broker. The limit is fixed at start and cut into classes with shares; whoever
// is about to hold bytes for somebody else (a request's body, an object being built, an answer) first reserves them
// from its class and gives them back when it has let go of them. A reservation that does not fit fails at once, so that
// a front end can refuse work before it has read it; only callers that have nobody to refuse may wait.
//
// The numbers are promises of the callers, not measurements: a class counts what was reserved. What nobody reserves
// (code, stacks, garbage not yet collected) is what the runtime share is for.
package budget

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
)

// Kind names a class of memory.
type Kind uint8

// The classes. Their order is that of the printed table.
const (
	Runtime     Kind = iota // code, stacks, garbage: nobody reserves it
	Pool                    // idle buffers kept for reuse: see Buffers
	Connections             // per connection: buffers, goroutine, protocol state
	Produce                 // bodies of produce requests, from before they are read until their slot is settled
	Objects                 // commit objects open and frozen: heads, indexes, arenas of small parts, retries
	Tail                    // committed objects kept for readers at the end of the log
	Fetch                   // answers being built or sent, range reads in flight
	CacheIndex              // what is known of the files in the disk cache
	Groups                  // consumer groups and their members
	State                   // what the log adds up to: package state counts it, it is not reserved
	Triggers                // triggers that are followed: package triggers counts them, they are not reserved
	Keys                    // keys that a compaction looks for
	kinds                   // how many there are
)

// shares is what each class has of the limit, in thousandths. The largest request (an eighth of the limit) fits into
// each class that it passes: Produce, Objects and Fetch. What rounding leaves over goes to Runtime.
var shares = [kinds]struct {
	name  string
	share int64
	use   string
}{
	Runtime:     {"runtime", 200, "code, stacks, garbage collection"},
	Pool:        {"pool", 20, "idle buffers kept for reuse; more while requests leave theirs free"},
	Connections: {"connections", 110, "open connections; at the limit idle ones are closed"},
	Produce:     {"produce", 140, "bodies of produce requests in flight"},
	Objects:     {"objects", 130, "objects being filled or stored"},
	Tail:        {"tail", 45, "newest records, for readers at the end"},
	Fetch:       {"fetch", 130, "answers to readers"},
	CacheIndex:  {"cache-index", 20, "index of the disk cache"},
	Groups:      {"groups", 15, "consumer groups"},
	State:       {"state", 110, "topics, partitions, offsets of groups, producers, where records lie"},
	Triggers:    {"triggers", 50, "triggers and their compiled expressions"},
	Keys:        {"keys", 30, "keys while a topic is compacted"},
}

const (
	thousand = 1000
	// tight is a limit below which nothing idles beyond the pool's share. Of what is above, one part in idleShare may: enough
	// for the bodies of two objects by default.
	tight     = 64 << 20
	idleShare = 8
	// ample is a limit above which the program needs no more memory of its own in proportion: of what is above, connectionsMore
	// thousandths go from Runtime to Connections.
	ample           = 256 << 20
	connectionsMore = 100
	// LimitMin is the smallest limit with which a broker is any use.
	LimitMin = 16 << 20
	// requestMax is the largest record or request whatever the limit.
	requestMax = 30 << 20
)

// String is the class's name as metrics and messages use it.
func (k Kind) String() string {
	if k >= kinds {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return shares[k].name
}

// Kinds is every class, in the order of the table.
func Kinds() []Kind {
	all := make([]Kind, kinds)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// Budget is a limit cut into classes. All methods may be called concurrently.
type Budget struct {
	limit   int64
	classes [kinds]Class
	buffers *Buffers
}

// Validate says whether a limit in bytes is one to run a broker with.
func Validate(limit int64) error {
	if limit < LimitMin {
		return fmt.Errorf("memory limit of %s is below the smallest, %s", Text(limit), Text(LimitMin))
	}
	return nil
}

// New cuts a limit in bytes, which must be positive, into classes.
func New(limit int64) *Budget {
	if limit <= 0 {
		panic(fmt.Sprintf("budget: limit of %d bytes", limit))
	}
	b := &Budget{limit: limit}
	rest := limit
	for i := range b.classes {
		c := &b.classes[i]
		c.kind = Kind(i)
		c.limit = part(limit, shares[i].share)
		rest -= c.limit
	}
	b.classes[Runtime].limit += rest
	more := part(max(0, limit-ample), connectionsMore)
	b.classes[Runtime].limit -= more
	b.classes[Connections].limit += more
	b.buffers = NewBuffers(b.classes[Pool].limit)
	beyond := max(0, limit-tight) / idleShare
	b.buffers.more = func() int64 {
		return min(beyond, b.classes[Produce].spare()+b.classes[Objects].spare()+b.classes[Fetch].spare())
	}
	for _, k := range []Kind{Produce, Objects, Fetch} {
		b.classes[k].rested = b.buffers.trim
	}
	return b
}

// part is limit*share/1000 without overflow.
func part(limit, share int64) int64 {
	hi, lo := bits.Mul64(uint64(limit), uint64(share))
	quo, _ := bits.Div64(hi, lo, thousand)
	return int64(quo)
}

// LimitFor is the least limit of a budget in which a class (not Runtime) has bytes, of which there are less than 2^50.
func LimitFor(k Kind, bytes int64) int64 {
	share := shares[k].share
	limit := (bytes*thousand + share - 1) / share
	if k == Connections && limit > ample {
		limit = (bytes*thousand + ample*connectionsMore + share + connectionsMore - 1) / (share + connectionsMore)
		for part(limit, share)+part(limit-ample, connectionsMore) < bytes { // rounding
			limit++
		}
	}
	return limit
}

// Limit is the limit that the budget was made with, in bytes.
func (b *Budget) Limit() int64 { return b.limit }

// Class is one class of the budget.
func (b *Budget) Class(k Kind) *Class { return &b.classes[k] }

// Buffers is the pool of buffers that the whole broker shares; the Pool class bounds what idles in it.
func (b *Budget) Buffers() *Buffers { return b.buffers }

// RequestMax is the size in bytes of the largest record or request: an eighth of the limit, at most 30 MiB.
func (b *Budget) RequestMax() int64 { return min(requestMax, b.limit/8) }

// outside is what the collector does not count: the program's code and data as far as they are in memory, and some room,
// since its limit is a soft one.
const outside = 30 << 20

// GoLimit is what to give to runtime/debug.SetMemoryLimit: three quarters of the limit, and less where that leaves too
// little for what the collector does not count, but at least half.
func (b *Budget) GoLimit() int64 { return max(b.limit/2, min(b.limit/4*3, b.limit-outside)) }

// Usage is a snapshot of one class, in bytes.
type Usage struct {
	Kind    Kind
	Limit   int64
	Used    int64
	Peak    int64  // the most that was ever used at once
	Waiting int    // callers in ReserveWait
	Refused uint64 // reservations that did not fit
}

// Usage is a snapshot of every class; the classes are not looked at in one instant.
func (b *Budget) Usage() []Usage {
	all := make([]Usage, 0, kinds)
	for i := range b.classes {
		all = append(all, b.classes[i].Usage())
	}
	return all
}

// Ceiling is the table of the classes for people to read, a line each, printed at start.
func (b *Budget) Ceiling() string {
	var s strings.Builder
	fmt.Fprintf(&s, "memory limit %s, largest request %s\n", Text(b.limit), Text(b.RequestMax()))
	for i := range b.classes {
		fmt.Fprintf(&s, "  %-12s %10s  %s\n", shares[i].name, Text(b.classes[i].limit), shares[i].use)
	}
	return s.String()
}

// Text is a number of bytes for people.
func Text(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d B", n)
	case n < 10<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// The two ways in which a reservation does not fit; test an OverError with errors.Is.
var (
	// ErrOver: not now; it may fit once others have released (429 and Retry-After).
	ErrOver = errors.New("over memory budget")
	// ErrTooLarge: it is larger than its whole class and never fits (413).
	ErrTooLarge = errors.New("too large for memory budget")
)

// OverError is a reservation that does not fit. It is ErrTooLarge or ErrOver.
type OverError struct {
	Class  Kind
	Wanted int64 // bytes asked for; when growing: the whole that it would have become
	Free   int64 // bytes free at that moment
	Limit  int64 // bytes of the class
}

// TooLarge reports whether it could never fit.
func (e *OverError) TooLarge() bool { return e.Wanted > e.Limit }

func (e *OverError) Error() string {
	if e.TooLarge() {
		return fmt.Sprintf("%v: %s wants %d bytes of %d", ErrTooLarge, e.Class, e.Wanted, e.Limit)
	}
	return fmt.Sprintf("%v: %s wants %d bytes, %d are free", ErrOver, e.Class, e.Wanted, e.Free)
}

func (e *OverError) Is(target error) bool {
	if e.TooLarge() {
		return target == ErrTooLarge
	}
	return target == ErrOver
}
