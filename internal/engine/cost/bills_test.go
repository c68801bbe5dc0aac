package cost_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/cost"
	"github.com/sebbroker/seb/test/costsim"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

var length = flag.Duration("costsim-table", 4*time.Hour, "simulated time of each row of the table of bills")

const put = 60 * time.Millisecond

// TestBills: with the default budget no bill rises by more than 20 % and a dollar, and sparse records
// do not wait.
func TestBills(t *testing.T) {
	costsim.Table(*length/time.Duration(sebtest.Runs(1, 4)), put, []float64{0.1, 1, 10, 1000}, func(r costsim.Row) {
		t.Logf("%-36s $%5.2f before, $%5.2f after; median %v before, %v after", r.Name, r.Before, r.After, r.Was.Round(time.Millisecond), r.Is.Round(time.Millisecond))
		if r.Rises() {
			t.Errorf("%s: $%.2f a month, $%.2f before", r.Name, r.After, r.Before)
		}
		if r.Name == "0.1 records/s, steady" && r.Is > put+time.Millisecond {
			t.Errorf("%s: median %v", r.Name, r.Is)
		}
		if r.Is > r.Was+10*time.Millisecond {
			t.Errorf("%s: median %v, %v before", r.Name, r.Is, r.Was)
		}
	})
}

func setting(t *testing.T, text string) cost.Setting {
	t.Helper()
	s := must.Get(cost.ParseSetting(text))(t)
	return s
}

// TestMonth: a month of a flood spends its budget and not more.
func TestMonth(t *testing.T) {
	sebtest.Long(t, "a million records; TestMonthsStayInTheBudget and TestTorrent remain")
	dense := costsim.Pattern{Name: "a record every two seconds", Of: func(seed uint64) costsim.Traffic { return costsim.Steady(seed, 0.5, 500) }}
	r, err := costsim.Month(dense, setting(t, "5USD/month"), put, 30*24*time.Hour)
	must.NoError(t, err)
	if got := costsim.Dollars(r.Puts); got > 5.05 || got < 4.9 || r.Exceeded > 0.001 {
		t.Errorf("%s: $%.3f in a month at $5, exceeded by %.4f", dense.Name, got, r.Exceeded)
	}
	if most := r.Most(); most > 6*time.Second {
		t.Errorf("%s: a record waited for %v", dense.Name, most)
	}
}

// TestSmallApp: the bill of 10,000 events a day is that of README.md and the guide.
func TestSmallApp(t *testing.T) {
	r, err := costsim.Month(costsim.Patterns[0], setting(t, ""), put, 30*24*time.Hour)
	must.NoError(t, err)
	want := fmt.Sprintf("$%.2f", costsim.Dollars(r.Puts))
	for _, document := range []string{"README.md", "docs/guide/costs.md"} {
		if text := must.Get(os.ReadFile("../../../" + document))(t); !strings.Contains(string(text), want) {
			t.Errorf("%s costs %s a month, which %s does not say", costsim.Patterns[0].Name, want, document)
		}
	}
}

// TestTorrent: bytes that do not fit into the budget are stored nevertheless.
func TestTorrent(t *testing.T) {
	length := 24 * time.Hour / time.Duration(sebtest.Runs(1, 3))
	r, err := costsim.Month(costsim.Torrent, setting(t, "5USD/month"), put, length)
	must.NoError(t, err)
	// As many objects as the bytes need, and those that the begin of the month has.
	need := 20*(600<<10)*length.Seconds()/costsim.BytesMax + 0.03*1e6
	exceeded := float64(sebtest.Runs(4, 1)) / 100
	if got := float64(r.Objects); got > need || r.Exceeded < exceeded || r.Most() > 3*time.Second {
		t.Errorf("%s: %.0f objects, %.0f needed; exceeded by %.3f, waits up to %v", costsim.Torrent.Name, got, need, r.Exceeded, r.Most())
	}
}

// TestRestarts: a broker that starts every minute for an hour and has lost its data folder spends no
// more, except for the starts themselves.
func TestRestarts(t *testing.T) {
	for _, budget := range []string{"", "5USD/month"} {
		prices, _ := cost.Preset("s3-standard")
		limit := must.Get(setting(t, budget).Limit(&prices, costsim.Wait))(t)
		run := func(every time.Duration) int64 {
			return costsim.Run(costsim.Options{
				Begin: time.Date(2026, 11, 9, 0, 0, 0, 0, time.UTC), Length: time.Hour, Traffic: costsim.Steady(1, 1, 500), Limit: &limit, Put: put, Restart: every,
			}).Objects
		}
		if with, without := run(time.Minute), run(0); with > without+without/100 {
			t.Errorf("%q: %d objects with restarts, %d without", budget, with, without)
		}
	}
}
