// Package budget bounds the memory of a broker. The limit is fixed at start and divided into
// classes. Code that is about to hold memory for a client or the log (a request's body, an object
// being built, a response) first reserves it from a class, and releases it when nothing refers to
// it any more. A reservation that does not fit fails at once, so that a front end can refuse a
// request before it reads it. Only callers that cannot refuse work may wait.
//
// A class counts the bytes that its callers reserve; it does not measure memory. The Runtime class
// stands for everything that is not reserved: code, stacks, garbage not yet collected.
package budget

import (
	"errors"
	"fmt"
	"math/bits"
	"sort"
	"strings"
)

// Kind names a class of memory.
type Kind uint8

// The classes. Their order is that of the printed table.
const (
	Runtime     Kind = iota // code, stacks, garbage: never reserved
	Pool                    // idle buffers kept for reuse: see Buffers
	Connections             // per connection: buffers, goroutine, protocol state
	Produce                 // bodies of produce requests, reserved before they are read
	Objects                 // commit objects open and frozen: heads, indexes, small parts, retries
	Tail                    // committed objects kept for readers at the end of the log
	Fetch                   // responses being built or sent, range reads in flight
	Answers                 // small answers about the broker: readers of records do not use it
	CacheIndex              // index of the files in the disk cache
	Groups                  // consumer groups and their members
	State                   // replayed state: counted by package state, not reserved
	Triggers                // followed triggers: counted by package rules, not reserved
	Keys                    // keys of a running compaction
	kinds                   // number of classes
)

// shares is each class's part of the limit in thousandths. The largest request (an eighth of the
// limit) fits into each class that it passes: Produce, Objects and Fetch. The remainder of rounding
// goes to Runtime.
var shares = [kinds]struct {
	name  string
	share int64
	use   string
}{
	Runtime:     {"runtime", 180, "code, stacks, garbage collection"},
	Pool:        {"pool", 20, "idle buffers kept for reuse; more while requests leave theirs free"},
	Connections: {"connections", 120, "open connections; at the limit idle ones are closed"},
	Produce:     {"produce", 140, "bodies of produce requests in flight"},
	Objects:     {"objects", 130, "objects being built or stored"},
	Tail:        {"tail", 45, "newest records, for readers at the end"},
	Fetch:       {"fetch", 130, "responses to readers"},
	Answers:     {"answers", 10, "small answers about the broker; larger ones use fetch"},
	CacheIndex:  {"cache-index", 20, "index of the disk cache"},
	Groups:      {"groups", 15, "consumer groups"},
	State:       {"state", 110, "topics, partitions, group offsets, producers, object ranges"},
	Triggers:    {"triggers", 50, "triggers and their compiled expressions"},
	Keys:        {"keys", 30, "keys while a topic is compacted"},
}

const (
	thousand = 1000
	// tight is the limit up to which idle buffers stay within the Pool class. Above it, another
	// 1/idleShare of the bytes beyond tight may idle: by default enough for the bodies of two
	// objects.
	tight     = 64 << 20
	idleShare = 8
	// The program and the fixed part of its memory do not grow with the limit, so Runtime needs no
	// larger share than at tight: of the bytes from tight to ample, connectionsMore thousandths move
	// from Runtime to Connections, and of those beyond ample connectionsBeyond.
	ample             = 256 << 20
	connectionsMore   = 190
	connectionsBeyond = 100
	// LimitMin is the smallest limit with which a broker works.
	LimitMin = 16 << 20
	// requestMax bounds a record or request at any limit.
	requestMax = 30 << 20
)

// String is the class's name in metrics and messages.
func (k Kind) String() string {
	if k >= kinds {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return shares[k].name
}

// Kinds returns every class, in the order of the table.
func Kinds() []Kind {
	all := make([]Kind, kinds)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// Budget is a limit divided into classes. All methods may be called concurrently.
type Budget struct {
	limit   int64
	classes [kinds]Class
	buffers *Buffers
}

// Validate checks that a broker can run with a limit in bytes.
func Validate(limit int64) error {
	if limit < LimitMin {
		return fmt.Errorf("memory limit %s is below the minimum of %s", Text(limit), Text(LimitMin))
	}
	return nil
}

// New divides a limit in bytes, which must be positive, into classes.
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
	more := moreConnections(limit)
	b.classes[Runtime].limit -= more
	b.classes[Connections].limit += more
	b.buffers = NewBuffers(b.classes[Pool].limit)
	beyond := max(0, limit-tight) / idleShare
	b.buffers.more = func() int64 {
		return min(beyond, b.classes[Produce].spare()+b.classes[Objects].spare()+b.classes[Fetch].spare())
	}
	for _, k := range []Kind{Produce, Objects, Fetch} {
		b.classes[k].onIdle = b.buffers.trim
	}
	return b
}

// moreConnections is what Runtime leaves to Connections.
func moreConnections(limit int64) int64 {
	return part(max(0, min(limit, ample)-tight), connectionsMore) + part(max(0, limit-ample), connectionsBeyond)
}

// part is limit*share/1000 without overflow.
func part(limit, share int64) int64 {
	hi, lo := bits.Mul64(uint64(limit), uint64(share))
	quo, _ := bits.Div64(hi, lo, thousand)
	return int64(quo)
}

// LimitFor is the smallest limit at which class k, other than Runtime, has the given bytes (below
// 2^50).
func LimitFor(k Kind, bytes int64) int64 {
	share := shares[k].share
	limit := (bytes*thousand + share - 1) / share
	if k == Connections {
		return int64(sort.Search(int(limit), func(l int) bool { return part(int64(l), share)+moreConnections(int64(l)) >= bytes }))
	}
	return limit
}

// Limit is the limit of the budget in bytes.
func (b *Budget) Limit() int64 { return b.limit }

// Class is one class of the budget.
func (b *Budget) Class(k Kind) *Class { return &b.classes[k] }

// Buffers is the pool of buffers of the whole broker. The Pool class bounds its idle buffers.
func (b *Budget) Buffers() *Buffers { return b.buffers }

// RequestMax is the size in bytes of the largest record or request: an eighth of the limit, at most
// 30 MiB.
func (b *Budget) RequestMax() int64 { return min(requestMax, b.limit/8) }

// outside is memory that the garbage collector does not count: the program's resident code and
// data, and a reserve because its limit is a soft one.
const outside = 34 << 20

// GoLimit is the limit for runtime/debug.SetMemoryLimit: three quarters of the limit, less if that
// leaves fewer than outside bytes, but at least 15/32, which is as much at 64 MiB.
func (b *Budget) GoLimit() int64 { return max(b.limit/32*15, min(b.limit/4*3, b.limit-outside)) }

// Usage is a snapshot of one class, in bytes.
type Usage struct {
	Kind    Kind
	Limit   int64
	Used    int64
	Peak    int64  // maximum of Used
	Waiting int    // callers in ReserveWait
	Refused uint64 // reservations that did not fit
}

// Usage returns a snapshot of every class. The snapshots are not of one instant.
func (b *Budget) Usage() []Usage {
	all := make([]Usage, 0, kinds)
	for i := range b.classes {
		all = append(all, b.classes[i].Usage())
	}
	return all
}

// Ceiling is the table of the classes that is printed at start, one class per line.
func (b *Budget) Ceiling() string {
	var s strings.Builder
	fmt.Fprintf(&s, "memory limit %s, largest request %s\n", Text(b.limit), Text(b.RequestMax()))
	for i := range b.classes {
		fmt.Fprintf(&s, "  %-12s %10s  %s\n", shares[i].name, Text(b.classes[i].limit), shares[i].use)
	}
	return s.String()
}

// Text formats a number of bytes with a unit.
func Text(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d B", n)
	case n < 10<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// Errors of reservations; test an OverError with errors.Is.
var (
	// ErrOver: the class is in use; the reservation may fit later (429 and Retry-After).
	ErrOver = errors.New("over memory budget")
	// ErrTooLarge: the reservation exceeds the whole class and never fits (413).
	ErrTooLarge = errors.New("too large for memory budget")
)

// OverError is a reservation that does not fit. It is ErrTooLarge or ErrOver.
type OverError struct {
	Class  Kind
	Wanted int64 // bytes requested; for Grow the size after growing
	Free   int64 // bytes free at that moment
	Limit  int64 // size of the class
}

// TooLarge reports whether the reservation can never fit.
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
