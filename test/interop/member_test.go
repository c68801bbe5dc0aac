package interop

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// event is an event of a group's member, see testdata/python/member.py. kcat reports records only.
type event struct {
	kind              byte
	at                int64 // nanoseconds; for kcat when its line came
	partition, offset int
	number            int
	text              string // partitions of A, V and L; names of errors
}

// member is a process that is a member of a group.
type member struct {
	name   string
	cmd    *exec.Cmd
	parse  func(line string) (event, error)
	said   strings.Builder
	ended  chan struct{} // closed when it has ended and all output is processed
	silent bool          // reports only records
	killed bool
	left   bool // stopped by the test

	// Guarded by the crew's lock.
	events []event
	reads  int
	err    error
}

// crew is the members of a group and the records that they read.
type crew struct {
	t       *testing.T
	b       *testenv.InteropBroker
	topic   string
	members []*member
	lost    int // consumed by a kcat but not printed when it was killed; valid after judge

	mu       sync.Mutex // guards the fields below, and the events of members
	changed  chan struct{}
	distinct int
	seen     map[[2]int]bool // partition and offset
}

func newCrew(t *testing.T, b *testenv.InteropBroker, topic string) *crew {
	return &crew{t: t, b: b, topic: topic, changed: make(chan struct{}, 1), seen: make(map[[2]int]bool)}
}

// join starts a member; it is killed when the test ends.
func (c *crew) join(cmd *exec.Cmd, parse func(string) (event, error)) *member {
	c.t.Helper()
	m := &member{name: fmt.Sprintf("member %d", len(c.members)+1), cmd: cmd, parse: parse, ended: make(chan struct{})}
	out := must.Get(cmd.StdoutPipe())(c.t)
	cmd.Stderr = &m.said
	must.NoError(c.t, cmd.Start())
	c.members = append(c.members, m)
	go c.follow(m, out)
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-m.ended
	})
	return m
}

// follow processes a member's output. It ignores a line that a kill has cut.
func (c *crew) follow(m *member, out io.Reader) {
	r := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			break
		}
		e, err := m.parse(line)
		c.mu.Lock()
		if err != nil {
			m.err = err
		}
		m.events = append(m.events, e)
		if e.kind == 'R' {
			m.reads++
			if at := [2]int{e.partition, e.offset}; !c.seen[at] {
				c.seen[at] = true
				c.distinct++
			}
		}
		c.mu.Unlock()
		select {
		case c.changed <- struct{}{}:
		default:
		}
	}
	_ = m.cmd.Wait()
	close(m.ended)
}

// waitMax bounds the wait for a state of a group, including a kill of the broker.
const waitMax = 90 * time.Second

// wait waits until is returns true; it holds the lock during the call.
func (c *crew) wait(what string, is func() bool) {
	c.t.Helper()
	end := time.After(waitMax)
	for {
		c.mu.Lock()
		done := is()
		c.mu.Unlock()
		if done {
			return
		}
		select {
		case <-c.changed:
		case <-end:
			c.t.Fatalf("condition not met: %s\n%s", what, c.state())
		}
	}
}

// state describes the crew for a failed test.
func (c *crew) state() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, m := range c.members {
		_, _ = fmt.Fprintf(&b, "%s has read %d, killed %v, left %v, error %v", m.name, m.reads, m.killed, m.left, m.err)
		for _, e := range m.events {
			if e.kind != 'R' && e.kind != 'C' {
				_, _ = fmt.Fprintf(&b, "; %c %d %s", e.kind, e.at/1e6, e.text)
			}
		}
		b.WriteByte('\n')
	}
	c.missing(&b)
	return b.String()
}

// missing lists offsets that no member has read although later ones were read, and the readers of
// the previous offset.
func (c *crew) missing(b *strings.Builder) {
	const most = 10
	high, count := make(map[int]int), 0
	for at := range c.seen {
		high[at[0]] = max(high[at[0]], at[1])
	}
	for p, h := range high {
		for o := range h {
			if c.seen[[2]int{p, o}] || count == most {
				continue
			}
			count++
			_, _ = fmt.Fprintf(b, "offset %[2]d of partition %[1]d was not read; the previous one:", p, o)
			for _, m := range c.members {
				if i := slices.IndexFunc(m.events, func(e event) bool { return e.kind == 'R' && e.partition == p && e.offset == o-1 }); i >= 0 {
					_, _ = fmt.Fprintf(b, " %s, %d events before its end;", m.name, len(m.events)-1-i)
				}
			}
			b.WriteByte('\n')
		}
	}
}

// reading waits until each of some members has read a thousand more records.
func (c *crew) reading(members ...*member) {
	c.t.Helper()
	const more = 1000
	c.mu.Lock()
	marks := make(map[*member]int)
	for _, m := range members {
		marks[m] = m.reads
	}
	c.mu.Unlock()
	for _, m := range members {
		c.wait(m.name+" reads", func() bool { return m.reads >= marks[m]+more })
	}
}

// partitionsRead waits until each of count partitions has advanced by a thousand records.
func (c *crew) partitionsRead(count int) {
	c.t.Helper()
	const more = 1000
	high := func() []int {
		list := make([]int, count)
		for at := range c.seen {
			list[at[0]] = max(list[at[0]], at[1])
		}
		return list
	}
	c.mu.Lock()
	marks := high()
	c.mu.Unlock()
	var last time.Time
	done := false
	c.wait("every partition is read", func() bool {
		if time.Since(last) > 200*time.Millisecond { // checking everything is expensive
			last, done = time.Now(), true
			for p, h := range high() {
				done = done && h >= marks[p]+more
			}
		}
		return done
	})
}

// kill sends SIGKILL.
func (c *crew) kill(m *member) {
	c.mu.Lock()
	m.killed = true
	c.mu.Unlock()
	_ = m.cmd.Process.Kill()
	<-m.ended
}

// leave stops a member and waits.
func (c *crew) leave(m *member) {
	c.t.Helper()
	c.mu.Lock()
	m.left = true
	c.mu.Unlock()
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-m.ended:
	case <-time.After(waitMax):
		c.t.Fatalf("%s does not end", m.name)
	}
	if code := m.cmd.ProcessState.ExitCode(); code != 0 {
		c.t.Errorf("%s ended with %d: %s", m.name, code, m.said.String())
	}
}

// finish waits until count records are read, and stops all members.
func (c *crew) finish(count int) {
	c.t.Helper()
	list := ends(c.t, c.b, c.topic)
	c.wait(fmt.Sprintf("all of %d records are read", count), func() bool {
		return c.distinct+len(c.unprinted(list, count)) >= count
	})
	for _, m := range c.members {
		if !m.killed && !m.left {
			c.leave(m)
		}
	}
}

// unprinted returns records that kcat had consumed but not printed when it was killed or stopped,
// at most one each. librdkafka counts a record as read when kcat has it, and may commit it while
// kcat waits for the pipe; a stopping kcat prints nothing. Each comes directly after the last
// printed record.
func (c *crew) unprinted(ends []int64, count int) map[[2]int]bool {
	list := make(map[[2]int]bool)
	if count-c.distinct > len(c.members) { // too early
		return list
	}
	for _, m := range c.members {
		if !m.silent || !m.killed && !m.left {
			continue
		}
		last := make(map[int]int)
		for _, e := range m.events {
			last[e.partition] = e.offset
		}
		for p, o := range last {
			if at := [2]int{p, o + 1}; !c.seen[at] && int64(o+1) < ends[p] {
				list[at] = true
				break
			}
		}
	}
	return list
}

// pythonEvent parses a line of testdata/python/member.py.
func pythonEvent(line string) (e event, err error) {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return e, fmt.Errorf("unexpected output of a member: %q", line)
	}
	e.kind = fields[0][0]
	if e.at, err = strconv.ParseInt(fields[1], 10, 64); err != nil {
		return e, err
	}
	to := map[byte][]*int{'R': {&e.partition, &e.offset, &e.number}, 'C': {&e.partition, &e.offset}}[e.kind]
	if to == nil {
		e.text = strings.Join(fields[2:], " ")
		return e, nil
	}
	for i, p := range to {
		if i+2 >= len(fields) {
			return e, fmt.Errorf("unexpected output of a member: %q", line)
		}
		if *p, err = strconv.Atoi(fields[i+2]); err != nil {
			return e, err
		}
	}
	return e, nil
}

// kcatFormat is the output format of kcat members, kcatEvent parses it.
const kcatFormat = "%p %o\\t%k\\t%s\\n"

func kcatEvent(line string) (e event, err error) {
	parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
	if len(parts) != 3 {
		return e, fmt.Errorf("kcat printed %q", line)
	}
	e.kind, e.at = 'R', time.Now().UnixNano()
	if e.number, err = numberOf([]byte(parts[1]), []byte(parts[2])); err != nil {
		return e, err
	}
	_, err = fmt.Sscan(parts[0], &e.partition, &e.offset)
	return e, err
}

// judgement is the permitted behavior of a group's members.
type judgement struct {
	count int
	// brokerKilled permits that any member reads records again that were not committed when the
	// broker was killed.
	brokerKilled bool
}

// judge compares the records of the members with the stored ones: none is missing, partitions are
// in order, and only records of a killed member were read again. It returns the number of these.
func (c *crew) judge(j judgement) (again int) {
	c.t.Helper()
	stored := ends(c.t, c.b, c.topic)
	lost := c.unprinted(stored, j.count)
	c.lost = len(lost)
	readers := make(map[[2]int][]*member)
	numbers := make(map[[2]int]int)
	for _, m := range c.members {
		must.NoErrorf(c.t, m.err, "%s", m.name)
		for _, e := range m.events {
			if e.kind != 'R' {
				continue
			}
			at := [2]int{e.partition, e.offset}
			if n, ok := numbers[at]; ok && n != e.number {
				c.t.Fatalf("partition %d has at %d once %d and once %d", at[0], at[1], n, e.number)
			}
			readers[at], numbers[at] = append(readers[at], m), e.number
		}
	}
	total := 0
	for p, end := range stored {
		before := -1
		for o := range int(end) {
			at := [2]int{p, o}
			list := readers[at]
			if lost[at] {
				continue
			}
			if len(list) == 0 {
				c.t.Fatalf("offset %d of partition %d was not read\n%s", o, p, c.state())
			}
			if n := numbers[at]; n <= before {
				c.t.Fatalf("in partition %d %d comes after %d", p, n, before)
			}
			before = numbers[at]
			if len(list) == 1 {
				continue
			}
			again++
			alive := slices.DeleteFunc(slices.Clone(list), func(m *member) bool { return m.killed })
			if len(alive) > 1 && !j.brokerKilled {
				c.t.Fatalf("offset %d of partition %d was read by %s and %s, which were not killed\n%s", o, p, alive[0].name, alive[1].name, c.state())
			}
		}
		total += int(end)
	}
	if total != j.count || len(numbers)+len(lost) != total {
		c.t.Fatalf("%d records are stored, %d were read, %d were sent", total, len(numbers), j.count)
	}
	c.judgeOrder(j)
	c.judgeCommits()
	return again
}

// judgeOrder checks that no member has moved back in a partition.
func (c *crew) judgeOrder(j judgement) {
	c.t.Helper()
	for _, m := range c.members {
		last := make(map[int]int)
		for _, e := range m.events {
			if e.kind != 'R' {
				if e.kind == 'A' && j.brokerKilled {
					clear(last) // it continues from the commit
				}
				continue
			}
			if before, ok := last[e.partition]; ok && e.offset <= before && (!m.silent || !j.brokerKilled) {
				c.t.Fatalf("%s read offset %d of partition %d after %d", m.name, e.offset, e.partition, before)
			}
			last[e.partition] = e.offset
		}
	}
}

// judgeCommits checks that each member that began to read a partition started at an earlier commit,
// or after it.
func (c *crew) judgeCommits() {
	c.t.Helper()
	type reported struct {
		event
		m *member
	}
	var all []reported
	for _, m := range c.members {
		for _, e := range m.events {
			if strings.IndexByte("RCA", e.kind) >= 0 {
				all = append(all, reported{e, m})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b reported) int { return int(min(1, max(-1, a.at-b.at))) })
	committed := make(map[int]int)
	next := make(map[*member]map[int]int) // of partitions since they were assigned
	for _, e := range all {
		switch e.kind {
		case 'C':
			committed[e.partition] = max(committed[e.partition], e.offset)
			continue
		case 'A':
			continue
		}
		if next[e.m] == nil {
			next[e.m] = make(map[int]int)
		}
		if want, ok := next[e.m][e.partition]; (!ok || want != e.offset) && e.offset < committed[e.partition] {
			c.t.Fatalf("%s started partition %d at %d, but %d was committed before", e.m.name, e.partition, e.offset, committed[e.partition])
		}
		next[e.m][e.partition] = e.offset + 1
	}
}
