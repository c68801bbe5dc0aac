package rule

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"
)

const (
	trialSamples = 20
	trialSilent  = 5
	// trialRow is the estimated memory of an entity, without its name and state; trialID that of an
	// event ID.
	trialRow = 216
	trialID  = 48
	// trialPoll is the number of entities between two calls of Poll.
	trialPoll = 64
)

// ErrTrialMemory: a history does not fit into the limit of a Trial.
var ErrTrialMemory = errors.New("history does not fit into memory")

// TrialOptions configure a Trial.
type TrialOptions struct {
	Limit int64 // estimated bytes of memory
	// More returns a higher limit. It is called once, when Limit is not enough; nil: Limit is final.
	// Its error ends the trial.
	More func() (int64, error)
	// Poll is called by Finish, after every 64 entities. Its error ends the trial. nil: none.
	Poll func() error
	// Since and Until bound the instants (ms) of the firings that count, Until exclusively. Earlier
	// events count as history. Until 0: no bound.
	Since, Until int64
	// Sample is the factor of a sample: one of so many entities is evaluated, by a hash of its name.
	// 0 and 1: all entities.
	Sample int
}

// Trial applies a rule to a history in memory, and counts. If there are more entities than fit, the
// first ones are evaluated with all their events, and the others are ignored. With a sample, all
// counts except Seen are those of its entities; Estimate has the others.
type Trial struct {
	Events   int64 // in the history; Matched of them have an effect
	Matched  int64
	Entities int // with events that have an effect; Fired of them have a firing that counts
	Fired    int
	Firings  int64
	True     int // entities for which the expression is true at the end
	Degraded int // entities whose value may be wrong, because too many instances were open
	// Waiting is the number of entities with a deadline, the first at Next (ms).
	Waiting int
	Next    int64
	Days    map[string]int64 // firings by day, UTC, as 2006-01-02
	Last    []Sample         // the last firings by their instant, at most 20
	Silent  []Silence        // entities without a firing that counts, at most 5, by hash
	// Instances is the largest number of left sides of THEN that were open at once for an entity.
	Instances int
	Truncated bool // there were too many entities: others were ignored

	rule   *Rule
	o      TrialOptions
	rows   map[instanceKey]*trialInstance
	known  distinct
	tally  tally            // firings
	seen   map[uint64]int64 // hashes of events with IDs, of one partition, with their times
	part   uint32           // partition of seen
	pruned int64            // time of the last pruning of seen
	limit  int64
	bytes  int64 // estimated memory
}

// Sample is a firing of a trial.
type Sample struct {
	Transition
	Entity    string
	Partition uint32
}

// Silence is an entity without a firing that counts.
type Silence struct {
	Entity string
	True   bool
	Next   int64 // deadline (ms) at which the value changes without events; 0: none
	Last   int64 // time (ms) of an earlier firing; 0: none

	hash uint64
}

type instanceKey struct {
	entity    string
	partition uint32
}

// trialInstance is the state of an entity.
type trialInstance struct {
	Row
	firings int64 // those that count
}

// NewTrial starts a trial of a rule, which it uses until its end. It needs about o.Limit bytes at
// most, and 200 KiB for Seen.
func NewTrial(r *Rule, o TrialOptions) *Trial {
	if o.Until == 0 {
		o.Until = math.MaxInt64
	}
	return &Trial{Days: map[string]int64{}, rule: r, o: o, rows: map[instanceKey]*trialInstance{}, seen: map[uint64]int64{}, limit: o.Limit}
}

// Covers reports whether the trial evaluates an entity. It notes that the entity exists.
func (t *Trial) Covers(entity []byte) bool {
	h := entityHash(entity)
	t.known.add(h)
	return t.o.Sample <= 1 || (h>>32)%uint64(t.o.Sample) == 0
}

// Seen is the number of entities that the trial was asked about, without the erased ones: exact up
// to 8,192, above that with a standard error of 1.3 %.
func (t *Trial) Seen() int { return t.known.count() }

// Erase removes an entity.
func (t *Trial) Erase(entity string, partition uint32) {
	t.known.remove(entityHash([]byte(entity)))
	k := instanceKey{entity, partition}
	if row := t.rows[k]; row != nil {
		t.bytes -= k.bytes() + int64(cap(row.State))
		delete(t.rows, k)
	}
	t.Last = slices.DeleteFunc(t.Last, func(s Sample) bool { return s.Entity == entity && s.Partition == partition })
}

func (k *instanceKey) bytes() int64 { return trialRow + int64(len(k.entity)) }

// full reports whether no more entities may be added; the rest of the limit is for the growth of
// the existing ones.
func (t *Trial) full() bool { return t.bytes > t.limit/2 }

// over returns an error if the limit is exceeded.
func (t *Trial) over() error {
	if t.bytes > t.limit {
		if err := t.extend(); err != nil {
			return err
		}
	}
	if t.bytes <= t.limit {
		return nil
	}
	return fmt.Errorf("%w: %d entities and %d event IDs of a day need more than %d bytes", ErrTrialMemory, len(t.rows), len(t.seen), t.limit)
}

// extend raises the limit if that is still possible.
func (t *Trial) extend() error {
	more := t.o.More
	if t.o.More = nil; more == nil {
		return nil
	}
	limit, err := more()
	t.limit = max(t.limit, limit)
	return err
}

// Fresh reports whether an event with an ID of this hash is not a duplicate. Partitions come one
// after another.
func (t *Trial) Fresh(hash [16]byte, e *Event, partition uint32, at int64) (bool, error) {
	if t.part != partition { // duplicates are detected within a partition
		t.bytes -= trialID * int64(len(t.seen))
		t.part, t.pruned = partition, 0
		t.seen = map[uint64]int64{}
	}
	h := binary.BigEndian.Uint64(hash[:])
	if before, ok := t.seen[h]; ok && before >= at-Horizon {
		return false, nil
	}
	if t.Truncated && t.rows[instanceKey{e.EntityID, partition}] == nil {
		return true, nil // the entity is ignored anyway
	}
	if _, ok := t.seen[h]; !ok {
		t.bytes += trialID
	}
	t.seen[h] = at
	if t.full() {
		t.forget(at)
	}
	return true, t.over()
}

// forget removes IDs that are too old, from time to time.
func (t *Trial) forget(at int64) {
	if at < t.pruned+Horizon/24 {
		return
	}
	t.pruned = at
	for h, seen := range t.seen {
		if seen < at-Horizon {
			t.bytes -= trialID
			delete(t.seen, h)
		}
	}
}

// Event applies an event at its time (ms) and offset, in the order of its partition.
func (t *Trial) Event(e *Event, partition uint32, at, offset int64) error {
	t.Events++
	kinds := t.rule.Match(e)
	if kinds == 0 {
		return nil
	}
	t.Matched++
	k := instanceKey{e.EntityID, partition}
	x := t.rows[k]
	if x == nil {
		if room, err := t.room(at); err != nil || !room {
			return err
		}
		x = &trialInstance{}
		t.rows[k] = x
		t.bytes += k.bytes()
	}
	before := cap(x.State)
	s := &Instance{Entity: k.entity, Partition: partition, Row: &x.Row}
	if err := t.rule.Event(s, kinds, at, offset); err != nil {
		return err
	}
	t.Instances = max(t.Instances, t.rule.m.Instances())
	t.edges(s, x)
	t.bytes += int64(cap(x.State) - before)
	return t.over()
}

// room reports whether there is memory for another entity.
func (t *Trial) room(at int64) (bool, error) {
	if t.full() {
		t.forget(at)
	}
	if t.full() && !t.Truncated {
		if err := t.extend(); err != nil {
			return false, err
		}
	}
	t.Truncated = t.Truncated || t.full()
	return !t.Truncated, nil
}

// edges counts the firings.
func (t *Trial) edges(s *Instance, x *trialInstance) {
	for _, e := range s.Transitions {
		if e.Retracts || e.State == Suppressed || e.At < t.o.Since || e.At >= t.o.Until {
			continue
		}
		if t.Firings++; x.firings == 0 {
			t.Fired++
		}
		x.firings++
		t.tally.grow(x.firings)
		t.Days[time.UnixMilli(e.At).UTC().Format(time.DateOnly)]++
		t.keep(Sample{e, s.Entity, s.Partition})
	}
}

// keep adds a firing to Last, which is ordered, and removes the first one if there are too many.
func (t *Trial) keep(x Sample) {
	i, _ := slices.BinarySearchFunc(t.Last, x, func(a, b Sample) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Entity, b.Entity))
	})
	if len(t.Last) == trialSamples {
		if i == 0 {
			return
		}
		i--
		copy(t.Last, t.Last[1:i+1])
		t.Last[i] = x
		return
	}
	t.Last = slices.Insert(t.Last, i, x)
}

// Finish completes an instant (ms), before Until, and counts the entities by their state then.
func (t *Trial) Finish(at int64) error {
	n := 0
	for k, x := range t.rows {
		if n++; n%trialPoll == 0 && t.o.Poll != nil {
			if err := t.o.Poll(); err != nil {
				return err
			}
		}
		s := &Instance{Entity: k.entity, Partition: k.partition, Row: &x.Row}
		if err := t.rule.Until(s, at); err != nil {
			return err
		}
		t.edges(s, x)
		if x.Flags&True != 0 {
			t.True++
		}
		if x.Flags&Degraded != 0 {
			t.Degraded++
		}
		if x.Due != 0 {
			if t.Waiting++; t.Next == 0 || x.Due < t.Next {
				t.Next = x.Due
			}
		}
		if x.firings == 0 {
			t.silent(k.entity, x)
		}
	}
	t.Entities = len(t.rows)
	return nil
}

// silent adds an entity to Silent, which has those with the least hashes: the same ones in each run.
func (t *Trial) silent(entity string, x *trialInstance) {
	s := Silence{Entity: entity, True: x.Flags&True != 0, Next: x.Due, Last: x.Last, hash: mix(entityHash([]byte(entity)))}
	i, _ := slices.BinarySearchFunc(t.Silent, s, func(a, b Silence) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.Entity, b.Entity))
	})
	if i < trialSilent {
		t.Silent = slices.Insert(t.Silent, i, s)
		t.Silent = t.Silent[:min(len(t.Silent), trialSilent)]
	}
}

// Estimate is the estimate of a total from a sample of entities, with the bounds of its 95 %
// interval. Without a sample all three are the exact number.
type Estimate struct{ Value, Low, High int64 }

// tally sums up a number of each entity of a sample, such as its firings.
type tally struct {
	sum     int64
	squares int64 // sum of the squares
	most    int64 // the largest number of an entity
}

// grow says that the number of an entity has become n, from n-1.
func (t *tally) grow(n int64) {
	t.sum++
	t.squares += 2*n - 1
	t.most = max(t.most, n)
}

// ones is the tally of entities that count once each.
func ones(n int) tally { return tally{sum: int64(n), squares: int64(n), most: min(int64(n), 1)} }

// normal975 is the 97.5 % quantile of the normal distribution.
const normal975 = 1.959964

// estimate extrapolates to all entities.
//
// The hash selects each entity with probability p = 1/k, so the total is y/p for a sum y in the
// sample (Horvitz and Thompson). The interval is about the rest, which is not in the sample. Given n
// sampled entities with m firings each, the number of the others with m firings has a negative
// binomial distribution with mean n(1-p)/p and variance n(1-p)/p². The rest therefore has mean
// y(1-p)/p and variance v(1-p)/p², for a sum v of the squares in the sample. The bounds are
// quantiles of the gamma distribution with these moments. The upper bound adds one entity with the
// most firings, as Fay and Feuer do for weighted Poisson counts (Statistics in Medicine 16, 1997,
// 791-801), so that it is positive even if the sample has no firing. The quantiles are those of
// Wilson and Hilferty (PNAS 17, 1931, 684-688).
//
// No method knows an entity outside of the sample that has far more firings than all inside.
func (t tally) estimate(sample int) Estimate {
	if sample <= 1 {
		return Estimate{t.sum, t.sum, t.sum}
	}
	k, most := int64(sample), max(t.most, 1)
	return Estimate{
		Value: t.sum * k,
		Low:   t.sum + int64(math.Floor(restQuantile(t.sum, t.squares, k, -normal975))),
		High:  t.sum + int64(math.Ceil(restQuantile(t.sum+most, t.squares+most*most, k, normal975))),
	}
}

// restQuantile is the quantile of the rest of the total, for a normal quantile z.
func restQuantile(sum, squares, sample int64, z float64) float64 {
	if sum == 0 {
		return 0
	}
	p := 1 / float64(sample)
	mean, variance := float64(sum)*(1-p)/p, float64(squares)*(1-p)/(p*p)
	ninth := variance / (9 * mean * mean) // 1/9 of the inverse shape
	root := max(0, 1-ninth+z*math.Sqrt(ninth))
	return mean * root * root * root
}

// Estimates are extrapolations of the counts with these names.
type Estimates struct{ Firings, Fired, Entities Estimate }

// Estimate returns the estimates after Finish.
func (t *Trial) Estimate() Estimates {
	return Estimates{
		Firings: t.tally.estimate(t.o.Sample), Fired: ones(t.Fired).estimate(t.o.Sample), Entities: ones(t.Entities).estimate(t.o.Sample),
	}
}

// entityHash is the FNV-1a hash of an entity, mixed: each bit depends on each byte. Samples depend on
// it, so it never changes.
func entityHash(entity []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range entity {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return mix(h)
}

// mix is the finalizer of MurmurHash3.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// distinctMax bounds the hashes of a distinct.
const distinctMax = 8192

// distinct counts hashes by adaptive sampling (Flajolet, Computing 43, 1990, 391-400): it keeps
// those that end with level zero bits, and raises level if they are too many. The zero value is
// ready.
type distinct struct {
	kept  map[uint64]struct{}
	level int
}

func (d *distinct) keeps(h uint64) bool { return bits.TrailingZeros64(h) >= d.level }

func (d *distinct) add(h uint64) {
	if !d.keeps(h) {
		return
	}
	if d.kept == nil {
		d.kept = map[uint64]struct{}{}
	}
	d.kept[h] = struct{}{}
	for len(d.kept) > distinctMax {
		d.level++
		for h := range d.kept {
			if !d.keeps(h) {
				delete(d.kept, h)
			}
		}
	}
}

func (d *distinct) remove(h uint64) { delete(d.kept, h) }

func (d *distinct) count() int { return len(d.kept) << d.level }
