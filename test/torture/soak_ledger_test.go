package torture

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/record"
)

// id names a record: its topic, the incarnation of that topic (it may be deleted and recreated),
// and its number in the sequence. An id determines the whole record.
type id struct {
	topic     string
	life, seq int
}

// keysEach is the number of keys of a compacted topic.
const keysEach = 40

// headerID carries the id of a record without a value.
const headerID = "id"

func (i id) text() string { return fmt.Sprintf("%s %d %d", i.topic, i.life, i.seq) }

// record returns the record of an id; keyed ones include tombstones.
func (i id) record(keyed bool) record.Record {
	h := fnv.New32a()
	fmt.Fprint(h, i.text())
	chance := h.Sum32()
	if !keyed {
		return record.Record{Value: i.value(chance)}
	}
	r := record.Record{Key: fmt.Appendf(nil, "key-%02d", chance%keysEach), Value: i.value(chance)}
	if chance>>8%20 == 0 {
		r.Value, r.Headers = nil, []record.Header{{Key: headerID, Value: []byte(i.text())}}
	}
	return r
}

func (i id) value(chance uint32) []byte {
	return fmt.Appendf(nil, "%s %s", i.text(), strings.Repeat("x", 50+int(chance>>16%200)))
}

// idOf returns the id in a record.
func idOf(r *record.Record) (i id, err error) {
	text := r.Value
	if r.Value == nil && len(r.Headers) == 1 && r.Headers[0].Key == headerID {
		text = r.Headers[0].Value
	}
	_, err = fmt.Sscanf(string(text), "%s %d %d", &i.topic, &i.life, &i.seq)
	return i, err
}

// same reports whether r is the record of its id.
func same(r *record.Record, i id, keyed bool) bool {
	want := i.record(keyed)
	return string(r.Key) == string(want.Key) && string(r.Value) == string(want.Value) &&
		(r.Key == nil) == (want.Key == nil) && (r.Value == nil) == (want.Value == nil) && len(r.Headers) == len(want.Headers)
}

// acked is a run of acknowledged records: seq, seq+1, ... at offsets base, base+1, ...
type acked struct {
	base  int64
	seq   int
	count int
	sent  time.Time // before the request
}

// ledger is one topic of the load, with the acknowledgements of its only writer.
type ledger struct {
	name     string
	settings map[string]string
	partial  bool // starts later than at 0, by trims or retention
	keyed    bool // compacted
	renewed  bool // deleted and recreated
	ordered  bool // records of unknown outcome are in order too

	mu      sync.Mutex // guards the fields below
	life    int
	next    int // seq
	acked   []acked
	unknown map[int]bool // seqs
	trimmed int64        // highest requested trim
}

func (p *ledger) note(a acked) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acked = append(p.acked, a)
}

func (p *ledger) noteUnknown(seq, count int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range count {
		p.unknown[seq+i] = true
	}
}

// again starts the next incarnation of the topic.
func (p *ledger) again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life, p.next, p.acked, p.unknown, p.trimmed = p.life+1, 0, nil, map[int]bool{}, 0
}

// end returns the offset after the last acknowledged record.
func (p *ledger) end() int64 {
	if n := len(p.acked); n > 0 {
		return p.acked[n-1].base + int64(p.acked[n-1].count)
	}
	return 0
}

// The faults that judge finds.
const (
	faultMissing  = "acknowledged record is missing"
	faultMoved    = "record is not where its acknowledgement said"
	faultOrder    = "record comes after a later one"
	faultContent  = "record differs from what was sent"
	faultForeign  = "record that was rejected, or never sent"
	faultTwice    = "record is there twice"
	faultGap      = "offsets are not dense"
	faultNewest   = "newest record of a key is missing"
	faultRevived  = "record of a key that was removed is back"
	faultTooEarly = "record was removed before its retention"
)

// judge compares a topic's records with its writer's acknowledgements.
type judge struct {
	p      *ledger
	at     int64 // next offset
	entry  int   // of p.acked: the first that may contain it
	newest int   // highest seq so far
	last   map[string]int64
	found  map[int]bool // unknown seqs
	faults map[string][]string
	count  int
}

func newJudge(p *ledger, start int64) *judge {
	j := &judge{p: p, at: start, last: map[string]int64{}, found: map[int]bool{}, faults: map[string][]string{}}
	if start > 0 && !p.partial {
		j.fault(faultTooEarly, "%s begins at %d", p.name, start)
	}
	return j
}

func (j *judge) fault(kind, format string, args ...any) {
	j.faults[kind] = append(j.faults[kind], fmt.Sprintf(format, args...))
}

// see processes each record in order.
func (j *judge) see(r *record.Record) {
	p := j.p
	j.count++
	if r.Offset < j.at || r.Offset > j.at && !p.keyed {
		j.fault(faultGap, "%s: offset %d, want %d", p.name, r.Offset, j.at)
	}
	j.at = r.Offset + 1
	i, err := idOf(r)
	if err != nil || i.topic != p.name || i.life != p.life {
		j.fault(faultForeign, "%s %d at offset %d: %.80q", p.name, p.life, r.Offset, r.Value)
		return
	}
	if !same(r, i, p.keyed) {
		j.fault(faultContent, "%v at offset %d: %.80q", i, r.Offset, r.Value)
	}
	if p.keyed {
		j.last[string(r.Key)] = r.Offset
	}
	if p.ordered && i.seq < j.newest {
		j.fault(faultOrder, "%v at offset %d, after %d", i, r.Offset, j.newest)
	}
	j.newest = max(j.newest, i.seq)
	for ; j.entry < len(p.acked) && p.acked[j.entry].base+int64(p.acked[j.entry].count) <= r.Offset; j.entry++ {
	}
	switch e := j.entry; {
	case e < len(p.acked) && p.acked[e].base <= r.Offset:
		if want := p.acked[e].seq + int(r.Offset-p.acked[e].base); want != i.seq {
			j.fault(faultMoved, "%v at offset %d, where %d was acknowledged", i, r.Offset, want)
		}
	case !p.unknown[i.seq]:
		j.fault(faultForeign, "%v at offset %d", i, r.Offset)
	case j.found[i.seq]:
		j.fault(faultTwice, "%v at offset %d", i, r.Offset)
	default:
		j.found[i.seq] = true
	}
}

// end finishes after the last record. Records sent at kept or later are within retention.
func (j *judge) end(start int64, kept time.Time) {
	p := j.p
	for _, a := range p.acked {
		lost, end := max(a.base, p.trimmed), min(a.base+int64(a.count), start)
		if lost < end && !a.sent.Before(kept) {
			j.fault(faultTooEarly, "%s: offset %d is missing, the topic starts at %d", p.name, lost, start)
		}
	}
	if !p.keyed {
		if j.at < p.end() {
			j.fault(faultMissing, "%s: ends at %d, acknowledged was %d", p.name, j.at, p.end()-1)
		}
		return
	}
	type newest struct {
		offset    int64
		seq       int
		tombstone bool
	}
	want := map[string]newest{}
	for _, a := range p.acked {
		for n := range a.count {
			r := id{p.name, p.life, a.seq + n}.record(true)
			want[string(r.Key)] = newest{a.base + int64(n), a.seq + n, r.Value == nil}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		w := want[key]
		got, seen := j.last[key]
		switch {
		case w.offset < start || seen && got >= w.offset:
		case !w.tombstone && !seen && p.mayHaveRemoved(key, w.seq):
		case !w.tombstone:
			j.fault(faultNewest, "%s: %s at offset %d", p.name, key, w.offset)
		case seen:
			j.fault(faultRevived, "%s: %s at offset %d, removed at %d", p.name, key, got, w.offset)
		}
	}
}

// mayHaveRemoved reports whether a tombstone of the key with unknown outcome was sent after a
// record. It may have hidden that record before it was removed itself.
func (p *ledger) mayHaveRemoved(key string, after int) bool {
	for seq := range p.unknown {
		if r := (id{p.name, p.life, seq}).record(true); seq > after && r.Value == nil && string(r.Key) == key {
			return true
		}
	}
	return false
}
