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

	"github.com/sebbroker/seb/test/testenv"
)

// event is something that a member of a group has told, see testdata/python/member.py. kcat tells of records only.
type event struct {
	kind              byte
	at                int64 // nanoseconds; of kcat when its line came
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
	ended  chan struct{} // closed when it has ended and all it told is there
	silent bool          // tells nothing but what it reads
	killed bool
	left   bool // told to end

	// Guarded by the crew's lock.
	events []event
	reads  int
	err    error
}

// crew is the members of a group, and what they have read.
type crew struct {
	t       *testing.T
	b       *testenv.InteropBroker
	topic   string
	members []*member
	lost    int // taken by a kcat and not printed when it was killed; once judged

	mu       sync.Mutex // guards what follows, and the events of members
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
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd.Stderr = &m.said
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.members = append(c.members, m)
	go c.follow(m, out)
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-m.ended
	})
	return m
}

// follow takes what a member tells. A line that was cut short by a kill does not count.
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

// waitMax bounds the wait for something that a group has to come to, with a broker killed on the way.
const waitMax = 90 * time.Second

// wait waits until something is true, which is asked under the lock.
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
			c.t.Fatalf("never: %s\n%s", what, c.state())
		}
	}
}

// state is for a test that has failed.
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

// missing names offsets that nobody has read though somebody has read on, and who has read the one before.
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
			_, _ = fmt.Fprintf(b, "partition %d has %d, which nobody has read; the one before:", p, o)
			for _, m := range c.members {
				if i := slices.IndexFunc(m.events, func(e event) bool { return e.kind == 'R' && e.partition == p && e.offset == o-1 }); i >= 0 {
					_, _ = fmt.Fprintf(b, " %s, whose last but %d it is;", m.name, len(m.events)-1-i)
				}
			}
			b.WriteByte('\n')
		}
	}
}

// reading waits until each of some members has read a thousand records more.
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

// partitionsRead waits until there is no partition left out: each of count has gone on by a thousand records.
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
		if time.Since(last) > 200*time.Millisecond { // to look through all is work
			last, done = time.Now(), true
			for p, h := range high() {
				done = done && h >= marks[p]+more
			}
		}
		return done
	})
}

// kill is kill -9.
func (c *crew) kill(m *member) {
	c.mu.Lock()
	m.killed = true
	c.mu.Unlock()
	_ = m.cmd.Process.Kill()
	<-m.ended
}

// leave tells a member to end, and waits.
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

// finish waits until count records are read, and has all members leave.
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

// unprinted are records that kcat had taken and not printed when it was killed or told to end, one each time at most: librdkafka
// counts a record as read once kcat has it, and may commit it while kcat waits for the pipe; and kcat prints nothing any more
// once it is to end. Each comes right behind the last that was printed.
func (c *crew) unprinted(ends []int64, count int) map[[2]int]bool {
	list := make(map[[2]int]bool)
	if count-c.distinct > len(c.members) { // not worth the work yet
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

// pythonEvent is a line of testdata/python/member.py.
func pythonEvent(line string) (e event, err error) {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return e, fmt.Errorf("a member told %q", line)
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
			return e, fmt.Errorf("a member told %q", line)
		}
		if *p, err = strconv.Atoi(fields[i+2]); err != nil {
			return e, err
		}
	}
	return e, nil
}

// kcatFormat is what kcat members print of a record, kcatEvent what it says.
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

// judgement is what the members of a group may have done.
type judgement struct {
	count int
	// brokerKilled: what was read and not committed when the broker was killed may be read again, by anybody.
	brokerKilled bool
}

// judge checks what the members have read against what is stored: nothing is missing, partitions are in order, and what was
// read again was read by a member that was killed. It returns how many were read again.
func (c *crew) judge(j judgement) (again int) {
	c.t.Helper()
	stored := ends(c.t, c.b, c.topic)
	lost := c.unprinted(stored, j.count)
	c.lost = len(lost)
	readers := make(map[[2]int][]*member)
	numbers := make(map[[2]int]int)
	for _, m := range c.members {
		if m.err != nil {
			c.t.Fatalf("%s: %v", m.name, m.err)
		}
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
				c.t.Fatalf("nobody has read offset %d of partition %d\n%s", o, p, c.state())
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

// judgeOrder checks that no member has gone back in a partition.
func (c *crew) judgeOrder(j judgement) {
	c.t.Helper()
	for _, m := range c.members {
		last := make(map[int]int)
		for _, e := range m.events {
			if e.kind != 'R' {
				if e.kind == 'A' && j.brokerKilled {
					clear(last) // it goes on from where was committed
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

// judgeCommits checks that whoever began to read a partition began where was committed before, or behind that.
func (c *crew) judgeCommits() {
	c.t.Helper()
	type told struct {
		event
		m *member
	}
	var all []told
	for _, m := range c.members {
		for _, e := range m.events {
			if strings.IndexByte("RCA", e.kind) >= 0 {
				all = append(all, told{e, m})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b told) int { return int(min(1, max(-1, a.at-b.at))) })
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
			c.t.Fatalf("%s began partition %d at %d, and %d was committed before", e.m.name, e.partition, e.offset, committed[e.partition])
		}
		next[e.m][e.partition] = e.offset + 1
	}
}
