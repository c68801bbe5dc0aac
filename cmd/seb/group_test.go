package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

func TestGroups(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	p.must("topic", "create", "t", "--partitions", "2")
	p.mustWith("a\nb\nc\n", "produce", "t", "-p", "0")
	p.mustWith("d\n", "produce", "t", "-p", "1")
	sorted := func(out string) string {
		lines := strings.Fields(out)
		slices.Sort(lines)
		return strings.Join(lines, " ")
	}
	check.Equalf(t, sorted(p.must("consume", "t", "--group", "g")), "a b c d", "first")
	check.Equalf(t, p.must("consume", "t", "-g", "g"), "", "again")
	p.mustWith("e\nf\n", "produce", "t", "-p", "1")
	check.Equalf(t, p.must("consume", "t", "-g", "g", "-n", "1"), "e\n", "one record of the rest")
	if got := p.must("group", "list"); !strings.Contains(got, "GROUP") || !strings.Contains(got, "g      1       2           1") {
		t.Errorf("list: %s", got)
	}
	var g struct {
		Group   string
		Lag     int64
		Offsets []struct {
			Topic        string
			Partition    int
			Offset, Next int64
		}
	}
	if err := json.Unmarshal([]byte(p.must("group", "describe", "g", "--json")), &g); err != nil || g.Group != "g" || g.Lag != 1 || len(g.Offsets) != 2 || g.Offsets[1].Offset != 2 {
		t.Errorf("%+v, %v", g, err)
	}
	if got := p.must("group", "describe", "g"); !strings.HasSuffix(got, "\nEmpty, 0 members\n") {
		t.Errorf("describe: %s, want the state", got)
	}
	check.Containsf(t, p.must("group", "reset", "g", "t", "--to", "2", "-p", "0"), "t      0          2", "reset")
	check.Equalf(t, sorted(p.must("consume", "t", "-g", "g")), "c f", "after the reset")
	p.must("group", "reset", "g", "t", "--to", "earliest")
	check.Equalf(t, sorted(p.must("consume", "t", "-g", "g")), "a b c d e f", "from the beginning")
	p.must("group", "reset", "other", "t", "--to", "latest")
	check.Equalf(t, p.must("consume", "t", "-g", "other"), "", "from the end")
	check.Equalf(t, p.must("consume", "t", "-g", "late", "--offset", "latest"), "", "a new group from the end")
	p.mustWith("g\n", "produce", "t")
	check.Equalf(t, p.must("consume", "t", "-g", "late", "--offset", "latest"), "g\n", "new records")

	p.must("group", "delete", "g", "--yes")
	p.refused(1, "unknown group", "group", "describe", "g")
}

func TestTrimAndGroupErrors(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	p.mustWith("a\nb\nc\nd\n", "produce", "t")
	p.must("consume", "t", "-g", "late")
	check.Equalf(t, p.must("topic", "trim", "t", "--before", "3", "--yes"), "t partition 0 begins at offset 3, next is 4\n", "trim")
	p.must("topic", "trim", "t", "--before", "1")
	p.must("group", "reset", "g", "t", "--to", "3")
	check.Equalf(t, p.must("consume", "t", "-g", "g"), "d\n", "after the trim")
	p.refused(1, "offset below start", "consume", "t", "--offset", "1", "-p", "0")
	for _, args := range [][]string{
		{"consume", "t", "-g", "g", "--offset", "3"},
		{"group", "reset", "g", "t"},
		{"group", "reset", "g", "t", "--to", "soon"},
		{"group", "reset", "g", "t", "--to", "99"},
		{"group", "reset", "g", "t", "--to", "3", "-p", "7"},
		{"group", "delete", "late"},
		{"topic", "trim", "t"},
		{"topic", "trim", "t", "--before", "4"},
		{"topic", "trim", "t", "--before", "-1"},
	} {
		p.refused(2, "", args...)
	}
	p.refused(1, "offset beyond end", "topic", "trim", "t", "--before", "9", "--yes")
	p.refused(1, "unknown partition", "consume", "t", "-g", "g", "-p", "9")
}

// A consumer of a group is killed at random moments while records arrive. All runs together write
// every record, as whole lines and in order, each run from a position that an earlier one reached.
func TestKilledConsumerSkipsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	p := newWorkDir(t)
	p.serve()
	p.must("topic", "create", "t")
	end := feed(p)
	k := killed{t: t, p: p, seen: map[int]bool{}, begun: map[int]bool{}, highest: -1}
	for run := range sebtest.Runs(6, 3) {
		k.run(run)
	}
	n := end()
	name := filepath.Join(p.dir, "rest")
	must.NoError(t, os.WriteFile(name, []byte(p.must("consume", "t", "--group", "g")), 0o600))
	k.read(name)
	if len(k.seen) != n || len(k.begun) < sebtest.Runs(4, 2) {
		t.Errorf("%d of %d records written, by runs that started at %v", len(k.seen), n, k.begun)
	}
	if at := committedBy(t, p); at != int64(n) {
		t.Errorf("committed %d of %d", at, n)
	}
}

// feed produces numbered lines until end is called, which returns their number.
func feed(p *workDir) (end func() int) {
	p.t.Helper()
	produce := p.command("produce", "t")
	in, err := produce.StdinPipe()
	if err == nil {
		err = produce.Start()
	}
	must.NoError(p.t, err)
	enough, produced := make(chan struct{}), make(chan int, 1)
	go func() {
		n := 0
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for ; ; <-tick.C {
			select {
			case <-enough:
				in.Close()
				produced <- n
				return
			default:
			}
			for range 20 {
				fmt.Fprintf(in, "%d %s\n", n, strings.Repeat("x", n%50))
				n++
			}
		}
	}()
	return func() int {
		close(enough)
		n := <-produced
		must.NoError(p.t, produce.Wait())
		return n
	}
}

// killed collects the output of the killed runs of a consumer.
type killed struct {
	t       *testing.T
	p       *workDir
	seen    map[int]bool // records
	begun   map[int]bool // start positions
	highest int
}

// run starts a consumer, and kills it soon after it has written or committed a record.
func (k *killed) run(run int) {
	k.t.Helper()
	name := filepath.Join(k.p.dir, "out"+strconv.Itoa(run))
	f := must.Get(os.Create(name))(k.t)
	defer f.Close()
	c := k.p.command("consume", "t", "--group", "g", "--follow")
	c.Stdout = f
	must.NoError(k.t, c.Start())
	done := make(chan struct{})
	go func() {
		_ = c.Wait()
		close(done)
	}()
	waitForOutput(k.t, name, done)
	if run%3 != 2 {
		before := committedBy(k.t, k.p)
		waitFor(k.t, func() bool { return committedBy(k.t, k.p) > before })
	}
	time.Sleep(time.Duration(run*7%30) * time.Millisecond)
	_ = c.Process.Kill()
	<-done
	k.read(name)
}

// read parses the output of a run.
func (k *killed) read(name string) {
	k.t.Helper()
	first, last := readNumbers(k.t, name, k.seen)
	if first > k.highest+1 {
		k.t.Fatalf("%s: starts at %d after %d", name, first, k.highest)
	}
	k.begun[first] = true
	k.highest = max(k.highest, last)
	if at := committedBy(k.t, k.p); at > int64(k.highest+1) {
		k.t.Fatalf("%s: committed %d, last written %d", name, at, k.highest)
	}
}

func waitForOutput(t *testing.T, name string, done chan struct{}) {
	waitFor(t, func() bool {
		select {
		case <-done:
			return true
		default:
		}
		i, err := os.Stat(name)
		return err == nil && i.Size() > 0
	})
}

func committedBy(t *testing.T, p *workDir) int64 {
	t.Helper()
	r := p.run("group", "describe", "g", "--json")
	if r.code != 0 {
		return 0 // nothing yet
	}
	var g struct{ Offsets []struct{ Offset int64 } }
	if err := json.Unmarshal([]byte(r.out), &g); err != nil || len(g.Offsets) != 1 {
		t.Fatalf("%v: %s", err, r.out)
	}
	return g.Offsets[0].Offset
}

// readNumbers reads the consecutive numbers at the start of the lines. The last line may be
// incomplete.
func readNumbers(t *testing.T, name string, seen map[int]bool) (first, last int) {
	t.Helper()
	f := must.Get(os.Open(name))(t)
	defer f.Close()
	first, last = 0, -1
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return first, last
		}
		number, _, _ := strings.Cut(line, " ")
		n, err := strconv.Atoi(number)
		if err != nil || last >= 0 && n != last+1 {
			t.Fatalf("%s: line %q after %d", name, line, last)
		}
		if last < 0 {
			first = n
		}
		last, seen[n] = n, true
	}
}

// The broker is killed and restarted while a producer sends and a group reads. The producer
// continues: every line is stored once and in order, and the group gets each.
func TestProducerOutlivesKilledBrokers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	p := newWorkDir(t)
	b := p.serve()
	address := b.address()
	serveAgain := func() {
		b = p.launch("--http-port", address[strings.LastIndexByte(address, ':')+1:])
		waitFor(t, func() bool { return b.serves() })
	}
	p.must("topic", "create", "t")
	end := feed(p)
	for range 4 {
		before := nextOffset(p)
		waitFor(t, func() bool { return nextOffset(p) > before })
		b.kill()
		serveAgain()
	}
	n := end()
	seen := map[int]bool{}
	name := filepath.Join(p.dir, "all")
	must.NoError(t, os.WriteFile(name, []byte(p.must("consume", "t", "--group", "g")), 0o600))
	// readNumbers checks that each line follows the one before.
	if first, last := readNumbers(t, name, seen); first != 0 || last != n-1 {
		t.Errorf("lines %d to %d, want 0 to %d", first, last, n-1)
	}
	if got := nextOffset(p); got != n {
		t.Errorf("%d records for %d lines", got, n)
	}
}

func nextOffset(p *workDir) int {
	p.t.Helper()
	var topic struct {
		Partitions []struct {
			Next int `json:"next_offset"`
		}
	}
	if err := json.Unmarshal([]byte(p.must("topic", "describe", "t", "--json")), &topic); err != nil || len(topic.Partitions) != 1 {
		p.t.Fatalf("%+v, %v", topic, err)
	}
	return topic.Partitions[0].Next
}
