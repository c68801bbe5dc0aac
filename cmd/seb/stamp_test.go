package main_test

import (
	"bufio"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/check"
)

// timesOf returns the timestamps of a topic's records in the output of consume.
func (p *workDir) timesOf(topic string) (times []int64) {
	p.t.Helper()
	for in := bufio.NewScanner(strings.NewReader(p.must("consume", topic, "--format", "json"))); in.Scan(); {
		var r struct{ Offset, Timestamp int64 }
		if err := json.Unmarshal(in.Bytes(), &r); err != nil || r.Offset != int64(len(times)) {
			p.t.Fatalf("%q: %v", in.Text(), err)
		}
		times = append(times, r.Timestamp)
	}
	return times
}

// TestAppendTimeInCommands: import reports that it cannot keep times. Consume, export, inspect and
// fsck all use the append time.
func TestAppendTimeInCommands(t *testing.T) {
	p := newWorkDir(t)
	b := p.serve()
	o := p.old("old/orders")
	o.add(true, "AAA", "BBBBB", "C")
	o.add(false, "", "plain")
	p.must("topic", "create", "orders", "--setting", "timestamp-type=append")
	if r := p.run("import", "--from", "old", "--topic", "orders"); r.code != 0 || !strings.Contains(r.err, "times of the files are not kept") {
		t.Errorf("import: %+v", r)
	}
	p.mustWith("later\n", "produce", "orders")
	times := p.timesOf("orders")
	if len(times) != 6 || !slices.IsSorted(times) || times[0] == o.millis[0] || times[3] == o.millis[3] {
		t.Errorf("times %v, in the files %v", times, o.millis)
	}
	if r := p.run("export", "--topic", "orders", "--to", "new", "--split-times"); r.code != 0 || strings.Contains(r.err, "another time") {
		t.Errorf("export: %+v", r)
	}
	p.must("import", "--from", "new", "--topic", "orders", "--as", "round")
	check.EqualSlicesf(t, p.timesOf("round"), times, "exported and imported")
	b.term()
	keys, _ := walObjects(t, filepath.Join(p.dir, "seb-bucket"))
	var shown string
	for _, key := range keys {
		shown += p.must("inspect", key, "--records")
	}
	for _, ms := range times {
		// of orders and of round
		if at := time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000000Z"); strings.Count(shown, ": "+at+" key") < 2 {
			t.Errorf("no record of %s in: %s", at, shown)
		}
	}
	if got := p.must("fsck"); !strings.Contains(got, " 12 in 2 topics") || !strings.Contains(got, "damages     0") {
		t.Errorf("fsck: %s", got)
	}
}
