package killloop

import (
	"bufio"
	"context"
	"fmt"
	"os"
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

// verify compares what a broker gives with what the producers were told. It reports every kind of fault, each a few times.
func verify(ctx context.Context, t *testing.T, c *client.Client, ledgerFile string) report {
	t.Helper()
	f := &faults{t: t}
	found := readAll(ctx, f, c)
	acked, unknown := readLedger(t, ledgerFile)
	r := report{records: len(found), ackedRecords: len(acked), unknownRecords: len(unknown)}
	for i, at := range acked {
		switch got, ok := found[i]; {
		case !ok:
			f.fault("acknowledged record is missing", "%v, acknowledged at %v", i, at)
		case got != at:
			f.fault("record is not where its acknowledgement said", "%v at %v, acknowledged at %v", i, got, at)
		}
	}
	for i, at := range found {
		_, wasAcked := acked[i]
		switch {
		case unknown[i]:
			r.unknownFound++
		case !wasAcked:
			f.fault("record that was rejected, or never sent", "%v at %v", i, at)
		}
	}
	return r
}

// readAll reads all partitions and checks that offsets are dense, each producer's records are in order, none comes twice.
func readAll(ctx context.Context, f *faults, c *client.Client) map[id]place {
	found := map[id]place{}
	for p := range int32(partitions) {
		last := map[int]int{}
		next := int64(0)
		for r, err := range c.Records(ctx, topic, client.ReadOptions{Partition: p}) {
			if err != nil {
				f.t.Fatalf("read partition %d after offset %d: %v", p, next, err)
			}
			if r.Offset != next {
				f.fault("offsets are not dense", "partition %d: %d after %d", p, r.Offset, next-1)
			}
			next = r.Offset + 1
			i, err := parseID(r.Value)
			if err != nil {
				f.fault("record that nobody sent", "partition %d offset %d: %q", p, r.Offset, r.Value)
				continue
			}
			at := place{p, r.Offset}
			if before, twice := found[i]; twice {
				f.fault("record is there twice", "%v at %v and %v", i, before, at)
			}
			found[i] = at
			if before, ok := last[i.producer]; ok && before >= i.seq {
				f.fault("order of a producer is not kept", "partition %d offset %d: %v after %d", p, r.Offset, i, before)
			}
			last[i.producer] = i.seq
		}
	}
	return found
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

// faults prints the first few of each kind and counts the rest.
type faults struct {
	t     *testing.T
	count map[string]int
}

func (f *faults) fault(kind, format string, args ...any) {
	if f.count == nil {
		f.count = map[string]int{}
	}
	if f.count[kind]++; f.count[kind] <= 5 {
		f.t.Errorf("%s: "+format, append([]any{kind}, args...)...)
	} else if f.count[kind] == 6 {
		f.t.Errorf("%s: and more of these", kind)
	}
}
