package history

import (
	"fmt"
	"slices"
	"time"
)

// The rules. The first seven are those of Jepsen's checker for Kafka; the others are what a log promises beyond them.
const (
	RuleAborted   = "aborted read"        // a rejected record is there, or a rejected commit
	RuleOffset    = "inconsistent offset" // two records for one offset
	RuleLost      = "lost write"          // acknowledged, not above what was read, and nobody has read it
	RuleDuplicate = "duplicate"           // one record at two offsets
	RulePoll      = "poll order"          // a session skips records, or goes back
	RuleOrder     = "send order"          // a producer's records are in another order than it sent them
	RuleUnseen    = "unseen"              // acknowledged, above what was read, though all was read to its end

	RuleForeign = "foreign record" // bytes that nobody sent
	RuleMoved   = "moved record"   // acknowledged at another offset than it is read at
	RuleTorn    = "torn append"    // the records of one append are not together
	RuleTime    = "time order"     // an append lies before what was there when it began
	RuleGap     = "gap"            // offsets without a record
	RuleStale   = "stale read"     // the end, or the start, that a broker shows is behind what an epoch no newer had answered
	RuleStart   = "early trim"     // the start is above what anybody asked for
	RuleGroup   = "group register" // an offset of a group that was overwritten, or that nobody committed
	RuleSkip    = "skipped record" // a group's reader begins behind what the group was given
	RuleBack    = "progress"       // what members of a group have committed goes back, or is beyond what they were given
	RuleWant    = "condition"      // an append or commit whose condition did not hold
	RuleHistory = "history"        // the history contradicts itself: the fault is the recorder's
)

// Violation is a rule that was broken.
type Violation struct {
	Rule string
	Text string
	T    int64 // when it showed
	Op   int64 // which operation showed it, 0: the end
	Part int32
}

// String is one line.
func (v Violation) String() string {
	return fmt.Sprintf("%v op %d partition %d: %s: %s", time.Duration(v.T).Round(time.Microsecond), v.Op, v.Part, v.Rule, v.Text)
}

// Stats say how much a checker has seen.
type Stats struct {
	Ops      int64
	Acked    int64 // appends
	Rejected int64
	Unknown  int64
	Records  int64 // acknowledged
	Read     int64 // records, as often as they were read
	Commits  int64 // acknowledged, of groups
	Fetches  int64
	Trims    int64
	Late     int64 // records of unknown outcome that were found
	Stale    int64 // answers by a broker that had been taken over from
}

// Add adds the figures of another history.
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

// violationsMax bounds the list: one fault often shows in every read after it.
const violationsMax = 50

// partsMax is what a place has bits for.
const partsMax = 256

// Checker judges a history line by line. It remembers 16 bytes a record: at each offset who is there, and of each record
// sent where it is. Not safe for concurrent use.
type Checker struct {
	streams    [partsMax]*stream
	clients    map[int32]*client
	registers  map[registerKey]*register
	sessions   map[sessionKey]int64 // the next offset of each
	given      map[registerKey]int64
	progress   map[registerKey]*stream // end: what was committed
	open       map[int64]*open
	violations []Violation
	stats      Stats
	now        int64
	op         int64
	epoch      uint32 // the highest that answered
}

type registerKey struct {
	group string
	part  int32
}

type sessionKey struct {
	session string
	part    int32
}

// open is an operation under way.
type open struct {
	Event
	end   int64 // of the partition, as acknowledged or shown when it began
	epoch uint32
	marks [marksKept]mark // of the partition when it began
}

// NewChecker returns a checker that has seen nothing.
func NewChecker() *Checker {
	return &Checker{
		clients: map[int32]*client{}, registers: map[registerKey]*register{}, sessions: map[sessionKey]int64{},
		given: map[registerKey]int64{}, progress: map[registerKey]*stream{}, open: map[int64]*open{},
	}
}

// Violations lists what was found, the first of them.
func (c *Checker) Violations() []Violation { return c.violations }

// Stats says how much it has seen.
func (c *Checker) Stats() Stats { return c.stats }

func (c *Checker) fail(rule string, part int32, format string, args ...any) {
	if len(c.violations) < violationsMax {
		c.violations = append(c.violations, Violation{Rule: rule, Part: part, T: c.now, Op: c.op, Text: fmt.Sprintf(format, args...)})
	}
}

// Add takes the next line.
func (c *Checker) Add(e *Event) {
	c.now, c.op = e.T, e.Op
	switch {
	case e.Do != "":
		c.invoke(e)
	case e.Is != "":
		o := c.open[e.Op]
		if o == nil {
			c.fail(RuleHistory, 0, "operation %d ends and did not begin", e.Op)
			return
		}
		delete(c.open, e.Op)
		c.end(o, e)
	}
}

func (c *Checker) invoke(e *Event) {
	if e.Part < 0 || e.Part >= partsMax {
		c.fail(RuleHistory, e.Part, "no such partition")
		return
	}
	c.stats.Ops++
	o := &open{Event: *e, epoch: c.epoch}
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

func (c *Checker) end(o *open, e *Event) {
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
	at       []uint64 // who is at each offset: identity, 0 for nobody yet
	highest  int64    // behind the last record that was read
	end      int64    // behind what was acknowledged or shown
	start    int64    // highest that was shown
	trimMost int64    // highest that was asked for
	marks    []mark   // by epoch
}

// mark is what brokers of an epoch, or of an earlier one, have answered: later answers of the epoch show no less.
type mark struct {
	epoch      uint32
	end, start int64
}

// marksKept is how many epochs back an answer is held against what was known when it was asked for. One that is older is
// of a broker that was deposed so often that there is nothing to learn from it.
const marksKept = 4

func (s *stream) snapshot() (kept [marksKept]mark) {
	copy(kept[:], s.marks[max(0, len(s.marks)-marksKept):])
	return kept
}

// raise notes an answer.
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

// floor is the least that a broker of an epoch must show to who asked when the marks were taken.
func floor(marks *[marksKept]mark, epoch uint32) mark {
	var least mark
	for _, m := range marks {
		if m.epoch > 0 && m.epoch <= epoch {
			least = m
		}
	}
	return least
}
