package history

import (
	"fmt"
	"slices"
	"time"
)

// The rules. The first seven are those of Jepsen's checker for Kafka; the others are further
// promises of a log.
const (
	RuleAborted   = "aborted read"        // a rejected record or commit was read
	RuleOffset    = "inconsistent offset" // two records for one offset
	RuleLost      = "lost write"          // acknowledged below the highest offset read, but never read
	RuleDuplicate = "duplicate"           // one record at two offsets
	RulePoll      = "poll order"          // a session skips records, or moves back
	RuleOrder     = "send order"          // a producer's records are not in the order of sending
	RuleUnseen    = "unseen"              // acknowledged above the highest offset read, never read

	RuleForeign = "foreign record" // bytes that no client sent
	RuleMoved   = "moved record"   // read at another offset than acknowledged
	RuleTorn    = "torn append"    // the records of one append are not contiguous
	RuleTime    = "time order"     // an append is below the end that was known when it began
	RuleGap     = "gap"            // an offset without a record
	RuleStale   = "stale read"     // an answer shows less than an earlier one of no newer epoch
	RuleStart   = "early trim"     // the start is above every requested trim
	RuleGroup   = "group register" // a group's offset was overwritten before, or never committed
	RuleSkip    = "skipped record" // a group's reader starts after the records that the group got
	RuleBack    = "progress"       // a group's commits decrease, or exceed what it got
	RuleWant    = "condition"      // an append or commit whose condition was false
	RuleHistory = "history"        // the history is inconsistent: an error of the recorder
)

// Violation is a broken rule.
type Violation struct {
	Rule string
	Text string
	T    int64 // when it was detected
	Op   int64 // the operation that showed it, 0: the end
	Part int32
}

// String returns one line.
func (v Violation) String() string {
	return fmt.Sprintf("%v op %d partition %d: %s: %s", time.Duration(v.T).Round(time.Microsecond), v.Op, v.Part, v.Rule, v.Text)
}

// Stats count what a checker has seen.
type Stats struct {
	Ops      int64
	Acked    int64 // appends
	Rejected int64
	Unknown  int64
	Records  int64 // acknowledged
	Read     int64 // records, once per read
	Commits  int64 // acknowledged commits of groups
	Fetches  int64
	Trims    int64
	Late     int64 // records of unknown outcome that were found
	Stale    int64 // answers by a deposed broker
}

// Add adds the counts of another history.
func (s *Stats) Add(o Stats) {
	s.Ops += o.Ops
	s.Acked += o.Acked
	s.Rejected += o.Rejected
	s.Unknown += o.Unknown
	s.Records += o.Records
	s.Read += o.Read
	s.Commits += o.Commits
	s.Fetches += o.Fetches
	s.Trims += o.Trims
	s.Late += o.Late
	s.Stale += o.Stale
}

// violationsMax bounds the list, because one fault often shows in every later read.
const violationsMax = 50

// partsMax is limited by the bits of recordState.
const partsMax = 256

// Checker checks a history line by line. It needs 16 bytes per record: the record at each offset,
// and the offset of each sent record. It is not safe for concurrent use.
type Checker struct {
	streams    [partsMax]*stream
	clients    map[int32]*client
	registers  map[registerKey]*register
	sessions   map[sessionKey]int64 // next offset by session
	given      map[registerKey]int64
	progress   map[registerKey]*stream // end: the highest commit
	open       map[int64]*operation
	violations []Violation
	stats      Stats
	now        int64
	op         int64
	epoch      uint32 // highest that answered
}

type registerKey struct {
	group string
	part  int32
}

type sessionKey struct {
	session string
	part    int32
}

// open is an operation in progress.
type operation struct {
	Event
	end   int64 // of the partition at the beginning: acknowledged or shown
	epoch uint32
	marks [marksKept]mark // of the partition at the beginning
}

// NewChecker returns a checker for an empty history.
func NewChecker() *Checker {
	return &Checker{
		clients: map[int32]*client{}, registers: map[registerKey]*register{}, sessions: map[sessionKey]int64{},
		given: map[registerKey]int64{}, progress: map[registerKey]*stream{}, open: map[int64]*operation{},
	}
}

// Violations returns the violations, at most the first violationsMax.
func (c *Checker) Violations() []Violation { return c.violations }

// Stats returns the counts so far.
func (c *Checker) Stats() Stats { return c.stats }

func (c *Checker) fail(rule string, part int32, format string, args ...any) {
	if len(c.violations) < violationsMax {
		c.violations = append(c.violations, Violation{Rule: rule, Part: part, T: c.now, Op: c.op, Text: fmt.Sprintf(format, args...)})
	}
}

// Add processes the next line.
func (c *Checker) Add(e *Event) {
	c.now, c.op = e.T, e.Op
	switch {
	case e.Do != "":
		c.invoke(e)
	case e.Is != "":
		o := c.open[e.Op]
		if o == nil {
			c.fail(RuleHistory, 0, "operation %d ends without a beginning", e.Op)
			return
		}
		delete(c.open, e.Op)
		c.end(o, e)
	}
}

func (c *Checker) invoke(e *Event) {
	if e.Part < 0 || e.Part >= partsMax {
		c.fail(RuleHistory, e.Part, "partition is out of range")
		return
	}
	c.stats.Ops++
	o := &operation{Event: *e, epoch: c.epoch}
	s := c.stream(e.Part)
	o.end, o.marks = s.end, s.snapshot()
	c.open[e.Op] = o
	switch e.Do {
	case Append:
		c.client(e.Client).send(c, o)
	case Commit:
		c.register(o).begin(c, o)
	case Progress:
		o.marks = c.progressOf(o).snapshot()
	case Trim:
		s.trimMost = max(s.trimMost, e.To)
	}
}

func (c *Checker) end(o *operation, e *Event) {
	if e.Epoch > 0 && e.Epoch < o.epoch {
		c.stats.Stale++
	}
	c.epoch = max(c.epoch, e.Epoch)
	switch o.Do {
	case Append:
		c.appended(o, e)
	case Read:
		c.read(o, e)
	case Commit:
		c.committed(o, e)
	case Fetch:
		c.fetched(o, e)
	case Progress:
		c.progressed(o, e)
	case Trim:
		c.trimmed(o, e)
	}
}

func (c *Checker) stream(part int32) *stream {
	s := c.streams[part]
	if s == nil {
		s = &stream{part: part}
		c.streams[part] = s
	}
	return s
}

func (c *Checker) client(id int32) *client {
	k := c.clients[id]
	if k == nil {
		k = &client{id: id}
		c.clients[id] = k
	}
	return k
}

// stream is what is known of a partition.
type stream struct {
	part     int32
	at       []uint64 // identity of the record at each offset, 0 if unknown
	highest  int64    // end of what was read
	end      int64    // end of what was acknowledged or shown
	start    int64    // highest start shown
	trimMost int64    // highest trim requested
	marks    []mark   // by epoch
}

// mark is the most that brokers up to an epoch have answered. Later answers of that epoch must not
// show less.
type mark struct {
	epoch      uint32
	end, start int64
}

// marksKept is how many epochs an answer may be behind and still be checked. A broker that was
// deposed more often is ignored.
const marksKept = 4

func (s *stream) snapshot() (kept [marksKept]mark) {
	copy(kept[:], s.marks[max(0, len(s.marks)-marksKept):])
	return kept
}

// raise records an answer.
func (s *stream) raise(epoch uint32, end, start int64) {
	s.end, s.start = max(s.end, end), max(s.start, start)
	if epoch == 0 {
		return
	}
	i, found := slices.BinarySearchFunc(s.marks, epoch, func(m mark, e uint32) int { return int(int64(m.epoch) - int64(e)) })
	if !found {
		m := mark{epoch: epoch}
		if i > 0 {
			m = s.marks[i-1]
			m.epoch = epoch
		}
		s.marks = slices.Insert(s.marks, i, m)
	}
	for ; i < len(s.marks); i++ {
		m := &s.marks[i]
		if m.end >= end && m.start >= start {
			return
		}
		m.end, m.start = max(m.end, end), max(m.start, start)
	}
}

// floor returns the least that a broker of an epoch must show to a request that began when the
// marks were taken.
func floor(marks *[marksKept]mark, epoch uint32) mark {
	var least mark
	for _, m := range marks {
		if m.epoch > 0 && m.epoch <= epoch {
			least = m
		}
	}
	return least
}
