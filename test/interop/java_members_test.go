package interop

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

const (
	rangeAssignor       = "org.apache.kafka.clients.consumer.RangeAssignor"
	cooperativeAssignor = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
	serverAssignor      = "uniform" // of the consumer protocol
)

// javaEvent is a line of a member's output.
type javaEvent struct {
	at          int64 // the machine's monotonic clock, nanoseconds
	member      string
	what        string
	part        int
	from, until int64
	id          string // of a member that joined
}

// closedFirst is a harmless message of the client if it is closed while it gets partitions.
const closedFirst = "could not be completed before the consumer closed"

// diary is the output of all members of a group, and their kills.
type diary struct {
	mu     sync.Mutex
	events []javaEvent
	faults []string // unexpected lines
}

// line parses a line of a member: NANOS EVENT PARTITION [FROM [UNTIL]].
func (d *diary) line(member, text string) {
	f := strings.Fields(text)
	d.mu.Lock()
	defer d.mu.Unlock()
	if strings.Contains(text, closedFirst) {
		return
	}
	if strings.Contains(text, "Error") || strings.Contains(text, "Exception") && len(f) > 1 && f[1] != "refused" {
		d.faults = append(d.faults, member+": "+text)
	}
	if len(f) < 3 {
		return
	}
	at, err := strconv.ParseInt(f[0], 10, 64)
	if err != nil {
		return
	}
	e := javaEvent{at: at, member: member, what: f[1]}
	e.part, _ = strconv.Atoi(f[2]) // always a number
	if e.what == "joined" {
		e.id = f[3]
	} else if len(f) > 3 {
		e.from, _ = strconv.ParseInt(f[3], 10, 64) // 0 for the name of an exception
	}
	if len(f) > 4 {
		e.until, _ = strconv.ParseInt(f[4], 10, 64)
	}
	d.events = append(d.events, e)
}

// killed records that a member was killed and lost its partitions. Its last line may be earlier.
func (d *diary) killed(member string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	last := int64(0)
	for _, e := range d.events {
		if e.member == member {
			last = e.at
		}
	}
	d.events = append(d.events, javaEvent{at: last + 1, member: member, what: "killed"})
}

func (d *diary) sorted() []javaEvent {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.SortedStableFunc(slices.Values(d.events), func(a, b javaEvent) int { return int(min(max(a.at-b.at, -1), 1)) })
}

// owners returns the current owner of each partition, according to the members.
func owners(events []javaEvent) map[int]string {
	of := map[int]string{}
	for _, e := range events {
		switch e.what {
		case "assigned":
			of[e.part] = e.member
		case "revoked", "lost":
			if of[e.part] == e.member {
				delete(of, e.part)
			}
		case "killed", "left":
			maps.DeleteFunc(of, func(_ int, m string) bool { return m == e.member })
		}
	}
	return of
}

// shared reports whether exactly these members have all partitions.
func (d *diary) shared(partitions int, members ...string) bool {
	of := owners(d.sorted())
	have := map[string]bool{}
	for _, m := range of {
		have[m] = true
	}
	return len(of) == partitions && slices.Equal(slices.Sorted(maps.Keys(have)), members)
}

// committed returns the sum of committed records.
func (d *diary) committed() int64 {
	last := map[int]int64{}
	for _, e := range d.sorted() {
		if e.what == "committed" {
			last[e.part] = e.from
		}
	}
	sum := int64(0)
	for _, n := range last {
		sum += n
	}
	return sum
}

// judge returns the faults of a diary: a partition with two owners, unless forgotten is set because
// the broker forgot its members; a start before the commit or after the last read; records that no
// member has read.
func judge(events []javaEvent, each int64, partitions int, forgotten bool) []string {
	var wrong []string
	fault := func(e javaEvent, format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("%d %s: ", e.at, e.member)+fmt.Sprintf(format, args...))
	}
	read, committed, owner := map[int]int64{}, map[int]int64{}, map[int]string{}
	for i, e := range events {
		p := e.part
		switch e.what {
		case "assigned":
			if o := owners(events[:i])[p]; o != "" && o != e.member && !forgotten {
				fault(e, "has got partition %d, which %s has", p, o)
			}
			owner[p] = e.member
			if e.from < committed[p] || e.from > read[p] {
				fault(e, "starts partition %d at %d: %d was committed, and read until %d", p, e.from, committed[p], read[p])
			}
		case "read":
			if e.from > read[p] {
				fault(e, "reads partition %d from %d, but no member has read from %d", p, e.from, read[p])
			}
			read[p] = max(read[p], e.until)
		case "committed":
			if owner[p] == e.member { // its line may come after that of the next owner
				committed[p] = max(committed[p], e.from)
			}
		}
	}
	for p := range partitions {
		if read[p] != each || committed[p] != each {
			wrong = append(wrong, fmt.Sprintf("partition %d: read until %d, committed %d, want %d", p, read[p], committed[p], each))
		}
	}
	return wrong
}

// group is a group of consumers under test.
type group struct {
	t        *testing.T
	b        *testenv.InteropBroker
	name     string
	assignor string
	fixed    bool // static members
	diary    diary
	members  map[string]*java
}

const (
	groupPartitions = 6
	groupRecords    = 60_000
)

func (g *group) add(names ...string) {
	g.t.Helper()
	for _, name := range names {
		args := []string{"member", settings(g.t, g.b), g.name, g.name, g.assignor}
		if g.fixed {
			args = append(args, name)
		}
		g.members[name] = start(g.t, classes(g.t), func(text string) { g.diary.line(name, text) }, "Interop", args...)
	}
}

func (g *group) kill(name string) {
	g.members[name].Kill()
	g.diary.killed(name)
}

func (g *group) until(members ...string) {
	g.t.Helper()
	sebtest.Eventually(g.t, fmt.Sprintf("partitions are with %v", members), func() bool { return g.diary.shared(groupPartitions, members...) })
}

// changes counts the assignments of members so far.
func (g *group) changes(names ...string) (n int) {
	for _, e := range g.diary.sorted() {
		if slices.Contains(names, e.member) && (e.what == "joined" || e.what == "revoked" || e.what == "lost") {
			n++
		}
	}
	return n
}

// TestGroups kills and adds members of groups of three while records are written, and finally kills
// the broker.
func TestGroups(t *testing.T) {
	for _, c := range []struct {
		name, assignor string
		fixed          bool
	}{
		{"eager", rangeAssignor, false},
		{"cooperative", cooperativeAssignor, false},
		{"static", rangeAssignor, true},
		{"server-side", serverAssignor, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			testenv.InteropWanted(t)
			b := testenv.ServeInterop(t)
			g := &group{t: t, b: b, name: "group-" + c.name, assignor: c.assignor, fixed: c.fixed, members: map[string]*java{}}
			create(t, b, g.name, groupPartitions)
			begin := time.Now()
			feed := start(t, classes(t), nil, "Interop", "feed", settings(t, b), g.name,
				strconv.Itoa(groupPartitions), strconv.Itoa(groupRecords), "20000")
			g.add("a", "b", "c")
			g.until("a", "b", "c")
			if c.fixed {
				g.replaced()
			} else {
				g.changed()
			}
			before := g.diary.sorted()
			b.Restart(500 * time.Millisecond)
			feed.wait(timeout)
			sebtest.Eventually(t, "all is committed", func() bool { return g.diary.committed() == groupRecords })
			g.finish(before)
			testenv.Report(javaClient, fmt.Sprintf("group, %s: members killed and added, broker killed", c.name), time.Since(begin))
		})
	}
}

// changed kills a member and adds one.
func (g *group) changed() {
	g.t.Helper()
	g.kill("b")
	g.until("a", "c")
	g.add("d")
	g.until("a", "c", "d")
}

// replaced kills a member and restarts it with its name: the others do not notice.
func (g *group) replaced() {
	g.t.Helper()
	changes := g.changes("a", "c")
	g.kill("b")
	g.add("b")
	g.until("a", "b", "c")
	if n := g.changes("a", "c"); n != changes {
		g.t.Errorf("the others had %d changes, %d before a member returned with its name", n, changes)
	}
	ids := map[string]bool{}
	for _, e := range g.diary.sorted() {
		if e.member == "b" && e.what == "joined" {
			ids[e.id] = true
		}
	}
	check.Equalf(g.t, len(ids), 2, "the returning member has the id of its predecessor: %v", ids)
}

// finish checks the time before the broker's kill strictly, and the whole history. Then it checks
// the commits with the command line tool.
func (g *group) finish(before []javaEvent) {
	g.t.Helper()
	for _, m := range g.members {
		if !ended(m) {
			m.Stop()
		}
	}
	wrong := judge(g.diary.sorted(), groupRecords/groupPartitions, groupPartitions, true)
	for _, w := range judge(before, 0, 0, false) {
		wrong = append(wrong, "before the broker was killed: "+w)
	}
	for _, w := range append(wrong, g.diary.faults...) {
		g.t.Error(w)
	}
	out := tool(g.t, g.b, groupsTool, "--describe", "--group", g.name)
	lines := 0
	for line := range strings.Lines(out) {
		// GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG …
		if f := strings.Fields(line); len(f) > 5 && f[1] == g.name {
			lines++
			if each := strconv.Itoa(groupRecords / groupPartitions); f[3] != each || f[4] != each || f[5] != "0" {
				g.t.Errorf("want all %s committed: %s", each, line)
			}
		}
	}
	check.Equalf(g.t, lines, groupPartitions, "output of the tool:\n%s", out)
	if g.t.Failed() {
		for _, e := range g.diary.sorted() {
			if e.what != "read" && e.what != "committed" {
				g.t.Logf("%+v", e)
			}
		}
	}
}
