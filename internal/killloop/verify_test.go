package killloop

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/sebbroker/seb/client"
)

// place is where a record is.
type place struct {
	partition int32
	offset    int64
}

// report is what a run comes to.
type report struct {
	records, ackedRecords, unknownRecords, unknownFound int
}

// seen is a record as a broker gave it.
type seen struct {
	place
	value string
}

// verify compares what a broker gives with what the producers were told.
func verify(ctx context.Context, t *testing.T, c *client.Client, ledgerFile string) report {
	t.Helper()
	var all []seen
	for p := range int32(partitions) {
		for r, err := range c.Records(ctx, topic, client.ReadOptions{Partition: p}) {
			if err != nil {
				t.Fatalf("read partition %d: %v", p, err)
			}
			all = append(all, seen{place{p, r.Offset}, string(r.Value)})
		}
	}
	acked, unknown := readLedger(t, ledgerFile)
	r, faults := judge(all, acked, unknown)
	for kind, examples := range faults {
		t.Errorf("%s: %d times, such as %v", kind, len(examples), examples[:min(5, len(examples))])
	}
	return r
}

// The faults that judge finds.
const (
	faultMissing  = "acknowledged record is missing"
	faultMoved    = "record is not where its acknowledgement said"
	faultRejected = "record that was rejected, or never sent"
	faultForeign  = "record that nobody sent"
	faultTwice    = "record is there twice"
	faultOrder    = "order of a producer is not kept"
	faultGap      = "offsets are not dense"
)

// judge looks for every fault in what was read, partition after partition.
func judge(all []seen, acked map[id]place, unknown map[id]bool) (r report, faults map[string][]string) {
	faults = map[string][]string{}
	fault := func(kind, format string, args ...any) {
		faults[kind] = append(faults[kind], fmt.Sprintf(format, args...))
	}
	r = report{records: len(all), ackedRecords: len(acked), unknownRecords: len(unknown)}
	found := map[id]place{}
	type lane struct {
		partition int32
		producer  int
	}
	last, next := map[lane]int{}, map[int32]int64{}
	for _, s := range all {
		if s.offset != next[s.partition] {
			fault(faultGap, "%v, want offset %d", s.place, next[s.partition])
		}
		next[s.partition] = s.offset + 1
		i, err := parseID([]byte(s.value))
		if err != nil {
			fault(faultForeign, "%v: %q", s.place, s.value)
			continue
		}
		if before, twice := found[i]; twice {
			fault(faultTwice, "%v at %v and %v", i, before, s.place)
		}
		found[i] = s.place
		l := lane{s.partition, i.producer}
		if before, ok := last[l]; ok && before >= i.seq {
			fault(faultOrder, "%v: %v after %d", s.place, i, before)
		}
		last[l] = i.seq
		if _, ok := acked[i]; !ok && !unknown[i] {
			fault(faultRejected, "%v at %v", i, s.place)
		}
		if unknown[i] {
			r.unknownFound++
		}
	}
	for i, at := range acked {
		switch got, ok := found[i]; {
		case !ok:
			fault(faultMissing, "%v, acknowledged at %v", i, at)
		case got != at:
			fault(faultMoved, "%v at %v, acknowledged at %v", i, got, at)
		}
	}
	return r, faults
}

func readLedger(t *testing.T, path string) (acked map[id]place, unknown map[id]bool) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	acked, unknown = map[id]place{}, map[id]bool{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var what string
		var first id
		var n int
		var at place
		if _, err := fmt.Sscanf(lines.Text(), "%s %d %d %d %d %d", &what, &first.producer, &first.seq, &n, &at.partition, &at.offset); err != nil {
			t.Fatalf("ledger line %q: %v", lines.Text(), err)
		}
		for k := range n {
			i := id{first.producer, first.seq + k}
			if what == "acked" {
				acked[i] = place{at.partition, at.offset + int64(k)}
			} else {
				unknown[i] = true
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return acked, unknown
}

// A judge that finds nothing would make the whole loop worthless.
func TestJudgeFindsEveryFault(t *testing.T) {
	a, b, c, u := id{1, 0}, id{1, 1}, id{1, 2}, id{1, 3}
	at := func(i id, offset int64) seen { return seen{place{0, offset}, string(i.value(1))} }
	acked := map[id]place{a: {0, 0}, b: {0, 1}, c: {0, 2}}
	unknown := map[id]bool{u: true}
	for name, tc := range map[string]struct {
		all  []seen
		want []string
	}{
		"nothing wrong":          {[]seen{at(a, 0), at(b, 1), at(c, 2)}, nil},
		"the unknown is there":   {[]seen{at(a, 0), at(b, 1), at(c, 2), at(u, 3)}, nil},
		"the unknown twice":      {[]seen{at(a, 0), at(b, 1), at(c, 2), at(u, 3), at(u, 4)}, []string{faultTwice, faultOrder}},
		"the last is missing":    {[]seen{at(a, 0), at(b, 1)}, []string{faultMissing}},
		"one in the middle is":   {[]seen{at(a, 0), at(c, 2)}, []string{faultMissing, faultGap}},
		"two changed places":     {[]seen{at(b, 0), at(a, 1), at(c, 2)}, []string{faultOrder, faultMoved}},
		"a rejected one":         {[]seen{at(a, 0), at(b, 1), at(c, 2), at(id{1, 9}, 3)}, []string{faultRejected}},
		"something else":         {[]seen{at(a, 0), at(b, 1), at(c, 2), {place{0, 3}, "what"}}, []string{faultForeign}},
		"in the wrong partition": {[]seen{at(a, 0), at(b, 1), {place{1, 0}, string(c.value(0))}}, []string{faultMoved}},
	} {
		_, faults := judge(tc.all, acked, unknown)
		got := slices.Sorted(maps.Keys(faults))
		slices.Sort(tc.want)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: found %q, want %q", name, got, tc.want)
		}
	}
}
