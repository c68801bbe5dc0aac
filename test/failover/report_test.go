package failover

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// events returns events at times in milliseconds, each due 10 ms before.
func events(at ...int) (list []event) {
	for _, ms := range at {
		d := time.Duration(ms) * time.Millisecond
		list = append(list, event{d, d - 10*time.Millisecond})
	}
	return list
}

func TestGaps(t *testing.T) {
	track := &track{events: events(0, 100, 200, 1000, 1100, 9000)}
	longest, late, pauses := gaps(track.between(150*time.Millisecond, 1050*time.Millisecond))
	if longest != 800*time.Millisecond || late != 10*time.Millisecond || pauses != 1 {
		t.Errorf("longest gap %v, latest by %v, pauses: %d; want 800ms, 10ms and 1", longest, late, pauses)
	}
	// The gap that begins in the window ends after it.
	if longest, _, _ := gaps(track.between(1050*time.Millisecond, 2*time.Second)); longest != 7900*time.Millisecond {
		t.Errorf("longest gap %v, want 7.9s", longest)
	}
}

var names = []string{"produce http", "produce franz", "consume http", "consume franz"}

// example has rounds with known figures.
func example() *Result {
	r := &Result{Standbys: true, Records: 12, Problems: []string{"one"}}
	for n := range 100 {
		round := Round{Fault: Kill, Number: n + 1, From: 5 * time.Second, To: 9 * time.Second, Led: time.Duration(n+1) * time.Millisecond, Takeovers: 2, Needless: 1, Requests: map[string]int{"GET wal": 3}}
		for _, name := range names {
			round.Seen = append(round.Seen, Seen{Client: name, Gap: time.Duration(n+1) * time.Millisecond, Late: time.Second, Errors: map[string]int{"a|b": 1}})
		}
		r.Rounds = append(r.Rounds, round)
	}
	for _, name := range names {
		r.tracks = append(r.tracks, &track{name: name, events: events(4000, 4500, 5200, 5300)})
	}
	return r
}

func TestTables(t *testing.T) {
	var text, lines strings.Builder
	r := example()
	must.NoError(t, r.Write(&text))
	must.NoError(t, r.WriteCSV(&lines))
	sebtest.Golden(t, "testdata/tables.txt", text.String()+"\n"+strings.Join(strings.SplitAfter(lines.String(), "\n")[:3], ""))
}

func TestPlot(t *testing.T) {
	var svg strings.Builder
	must.NoError(t, example().Plot(&svg))
	for d := xml.NewDecoder(strings.NewReader(svg.String())); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	check.Equalf(t, strings.Count(svg.String(), "700 ms"), len(names), "lanes have the gap of 700 ms")
	check.Error(t, (&Result{}).Plot(io.Discard), "a campaign without a takeover has a picture")
}
