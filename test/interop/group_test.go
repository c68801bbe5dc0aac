package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// The partitions of topics that groups read, and the records per second written to them.
const (
	partitions = 6
	rate       = 10_000
)

// flow is an idempotent producer that writes numbered records until it is stopped.
type flow struct {
	t     *testing.T
	end   func()
	ended chan error
	count int // valid after the end
}

// finish stops it and returns the number of written records, all of which were acknowledged.
func (f *flow) finish() int {
	f.t.Helper()
	f.end()
	select {
	case err := <-f.ended:
		must.NoErrorf(f.t, err, "the producer")
	case <-time.After(callMax):
		f.t.Fatal("the producer does not end")
	}
	return f.count
}

// pythonFlow starts one with confluent-kafka.
func pythonFlow(p *python, topic string) *flow {
	p.t.Helper()
	f := &flow{t: p.t, ended: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	c := p.command(ctx, "idempotent.py", topic, strconv.Itoa(rate))
	in := must.Get(c.StdinPipe())(p.t)
	var out, said strings.Builder
	c.Stdout, c.Stderr = &out, &said
	must.NoError(p.t, c.Start())
	f.end = func() { _ = in.Close() }
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := c.Wait()
		var r result
		if err == nil {
			err = json.Unmarshal([]byte(out.String()), &r)
		}
		if err != nil {
			err = fmt.Errorf("%w: %s", err, said.String())
		}
		f.count = r.Records
		f.ended <- err
	}()
	p.t.Cleanup(func() { stop(); <-done })
	return f
}

// kcatFlow starts one with kcat, which reads its records from a pipe.
func kcatFlow(k *kcat, topic string) *flow {
	k.t.Helper()
	f := &flow{t: k.t, ended: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	c := k.command(ctx, "-P", "-t", topic, "-K", "\\t", "-E", "-X", "enable.idempotence=true", "-X", "linger.ms=5")
	r, w := io.Pipe()
	var said strings.Builder
	c.Stdin, c.Stderr = r, &said
	end, wrote := make(chan struct{}), make(chan int, 1)
	f.end = func() { close(end) }
	go func() {
		n := 0
		defer func() { wrote <- n; _ = w.Close() }()
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-end:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			var lines strings.Builder
			for range rate / 100 {
				_, _ = fmt.Fprintf(&lines, "%s\t%s\n", keyOf(n), valueOf(n))
				n++
			}
			if _, err := io.WriteString(w, lines.String()); err != nil {
				return
			}
		}
	}()
	must.NoError(k.t, c.Start())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := c.Wait()
		_ = r.Close()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, said.String())
		}
		f.count = <-wrote
		f.ended <- err
	}()
	k.t.Cleanup(func() { stop(); <-done })
	return f
}

// pythonMember adds one with confluent-kafka.
func (c *crew) pythonMember(p *python, topic string, settings map[string]any) *member {
	c.t.Helper()
	text := must.Get(json.Marshal(settings))(c.t)
	return c.join(p.command(context.Background(), "member.py", topic, string(text)), pythonEvent)
}

// kcatMember adds one with kcat, which commits every five seconds.
func (c *crew) kcatMember(k *kcat, topic string) *member {
	c.t.Helper()
	m := c.join(k.command(context.Background(), "-q", "-u", "-E", "-f", kcatFormat, "-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000",
		"-X", "heartbeat.interval.ms=1000", "-G", "group", topic), kcatEvent)
	m.silent = true
	return m
}

// changes kills, adds and stops members of a group while records are written; join adds one. It
// returns the number of records, all of which were read, and a description.
func (c *crew) changes(f *flow, join func() *member) (count int, what string) {
	c.t.Helper()
	one, two, three := join(), join(), join()
	c.reading(one, two, three)
	c.kill(one)
	four := join()
	c.reading(four)
	c.partitionsRead(partitions)
	c.kill(two)
	c.partitionsRead(partitions)
	c.leave(three)
	five := join()
	c.reading(four, five)
	c.partitionsRead(partitions)
	count = f.finish()
	c.finish(count)
	return count, "group of 3, 2 killed -9, 1 left, 2 added while records flow"
}

func (c *crew) report(client, what string, begin time.Time, count, again int) {
	c.t.Helper()
	lost := "none missing"
	if c.lost > 0 {
		lost = fmt.Sprintf("%d consumed but not printed by a stopped kcat", c.lost)
	}
	report(c.t, client, what, time.Since(begin), fmt.Sprintf("%s records, %s, %s again", testenv.Thousands(count), lost, testenv.Thousands(again)))
}

func TestKcatGroup(t *testing.T) {
	testenv.InteropWanted(t)
	t.Parallel()
	b := testenv.ServeInterop(t)
	createTopic(t, b, "work", partitions)
	k := newKcat(t, b, "PLAIN")
	c, begin := newCrew(t, b, "work"), time.Now()
	count, what := c.changes(kcatFlow(k, "work"), func() *member { return c.kcatMember(k, "work") })
	c.report("kcat", what, begin, count, c.judge(judgement{count: count}))
}

func TestPythonGroup(t *testing.T) {
	testenv.InteropWanted(t)
	t.Parallel()
	for assignor, settings := range map[string]map[string]any{
		"range": {"partition.assignment.strategy": "range"}, "cooperative-sticky": {"partition.assignment.strategy": "cooperative-sticky"},
		"server-side": {"group.protocol": "consumer", "session.timeout.ms": nil, "heartbeat.interval.ms": nil},
	} {
		t.Run(assignor, func(t *testing.T) {
			t.Parallel()
			b := testenv.ServeInterop(t)
			createTopic(t, b, "work", partitions)
			p := newPython(t, b)
			c, begin := newCrew(t, b, "work"), time.Now()
			count, what := c.changes(pythonFlow(p, "work"), func() *member {
				return c.pythonMember(p, "work", settings)
			})
			again := c.judge(judgement{count: count})
			if assignor != "range" {
				c.judgeCooperation()
			}
			c.report("confluent-kafka", assignor+": "+what, begin, count, again)
		})
	}
}

// judgeCooperation checks that no remaining member gives up all its partitions.
func (c *crew) judgeCooperation() {
	c.t.Helper()
	for _, m := range c.members {
		owned := make(map[string]bool)
		for i, e := range m.events {
			list := strings.FieldsFunc(e.text, func(r rune) bool { return r == ',' })
			switch e.kind {
			case 'A':
				for _, p := range list {
					if owned[p] {
						c.t.Errorf("%s was assigned partition %s, which it had\n%s", m.name, p, c.state())
					}
					owned[p] = true
				}
			case 'L':
				c.t.Errorf("%s lost its partitions\n%s", m.name, c.state())
			case 'V':
				last := m.left && !slices.ContainsFunc(m.events[i:], func(e event) bool { return e.kind == 'R' || e.kind == 'A' })
				if len(list) >= len(owned) && !last {
					c.t.Errorf("%s gave up all its partitions, %s\n%s", m.name, e.text, c.state())
				}
				for _, p := range list {
					delete(owned, p)
				}
			}
		}
	}
}

// TestPythonStaticMembers kills a member with a group.instance.id and restarts it: it has its
// partitions immediately, and no other member notices. Another member with the same id replaces it.
func TestPythonStaticMembers(t *testing.T) {
	testenv.InteropWanted(t)
	t.Parallel()
	b := testenv.ServeInterop(t)
	createTopic(t, b, "work", partitions)
	p := newPython(t, b)
	c, begin := newCrew(t, b, "work"), time.Now()
	f := pythonFlow(p, "work")
	join := func(id string) *member {
		return c.pythonMember(p, "work", map[string]any{"group.instance.id": id, "session.timeout.ms": 30_000})
	}
	one, two, three := join("one"), join("two"), join("three")
	c.reading(one, two, three)
	settled := func(m *member) (assigned string, changes int) {
		for _, e := range m.events {
			if strings.IndexByte("AVL", e.kind) >= 0 {
				changes++
			}
			if e.kind == 'A' {
				assigned = e.text
			}
		}
		return assigned, changes
	}
	c.mu.Lock()
	had, _ := settled(one)
	_, before2 := settled(two)
	_, before3 := settled(three)
	c.mu.Unlock()
	c.kill(one)
	again := join("one")
	c.reading(again, two, three)
	c.mu.Lock()
	has, _ := settled(again)
	_, after2 := settled(two)
	_, after3 := settled(three)
	c.mu.Unlock()
	if has != had || after2 != before2 || after3 != before3 {
		t.Errorf("after its restart it has %q, had %q; the others' partitions changed %d and %d times\n%s", has, had, after2-before2, after3-before3, c.state())
	}
	// A second member with the id: the first is fenced, and reports that.
	second := join("one")
	c.wait("the first is fenced", func() bool {
		return slices.ContainsFunc(again.events, func(e event) bool { return e.kind == 'F' })
	})
	<-again.ended
	again.killed = true // its uncommitted records are read again
	c.reading(second)
	c.mu.Lock()
	fault := again.events[slices.IndexFunc(again.events, func(e event) bool { return e.kind == 'F' })].text
	c.mu.Unlock()
	if !strings.Contains(fault, "FENCED_INSTANCE_ID") && fault != "_FATAL" {
		t.Errorf("it reported %s", fault)
	}
	count := f.finish()
	c.finish(count)
	c.report("confluent-kafka", "static members: 1 killed -9 and back without a rebalance, 1 fenced", begin, count, c.judge(judgement{count: count}))
}

// TestBrokerKilled kills the broker while idempotent producers and groups of both clients are
// running.
func TestBrokerKilled(t *testing.T) {
	testenv.InteropWanted(t)
	t.Parallel()
	b := testenv.ServeInterop(t)
	createTopic(t, b, "of-kcat", partitions)
	createTopic(t, b, "of-python", partitions)
	k, p := newKcat(t, b, "SCRAM-SHA-256"), newPython(t, b)
	begin := time.Now()
	flows := []*flow{kcatFlow(k, "of-kcat"), pythonFlow(p, "of-python")}
	kcats, pythons := newCrew(t, b, "of-kcat"), newCrew(t, b, "of-python")
	for range 2 {
		kcats.kcatMember(k, "of-kcat")
		pythons.pythonMember(p, "of-python", map[string]any{"group.id": "other"})
	}
	crews := []*crew{kcats, pythons}
	const kills = 3
	for i := range kills + 1 {
		for _, c := range crews {
			c.reading(c.members...)
			c.partitionsRead(partitions)
		}
		if i < kills {
			b.Restart(time.Duration(i) * time.Second)
		}
	}
	for i, c := range crews {
		topic, client := []string{"of-kcat", "of-python"}[i], []string{"kcat", "confluent-kafka"}[i]
		count := flows[i].finish()
		expectLog(t, b, topic, count, nil)
		c.finish(count)
		c.report(client, fmt.Sprintf("idempotent producer and group of 2, broker killed -9 %d times", kills), begin, count,
			c.judge(judgement{count: count, brokerKilled: true}))
	}
}
