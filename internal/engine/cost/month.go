package cost

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

// readsMax bounds the reads of a search for the position at which a month began.
const readsMax = 100

// search counts commit objects since a month began. Slots are numbered from 0 in each epoch and
// their append times grow, so the slot that begins the month is found by bisection. Collected slots
// cannot be read; only SEALs remain permanently.
type search struct {
	log   Log
	month int64 // its begin, µs
	// from is a position before which all slots are older than the month, if known.
	from  state.Position
	known bool

	reads  int
	oldest int64 // append time of the oldest commit object that is known to be counted, µs
	err    error // of the last read that failed: nothing is read after it
}

// time reads the append time of a slot. A SEAL has that of the slot before it. found is false if the
// object is gone or was not read.
func (q *search) time(ctx context.Context, epoch uint32, slot uint64, kind record.Kind) (at int64, found bool) {
	if q.reads == readsMax || q.err != nil {
		return 0, false
	}
	q.reads++
	h, err := q.log.SlotHead(ctx, state.Position{Epoch: epoch, Slot: slot})
	if err != nil {
		q.err = fmt.Errorf("epoch %d slot %d: %w", epoch, slot, err)
		return 0, false
	}
	if h == nil || h.Kind != kind {
		return 0, false // a late SEAL can have the name of a collected slot
	}
	if h.Time >= q.month && (q.oldest == 0 || h.Time < q.oldest) {
		q.oldest = h.Time
	}
	return h.Time, true
}

// count returns the number of commit objects between the begin of the month and end. exact is false
// if the log no longer tells where the month began: then those since the time oldest are counted.
// SEALs between the last commit before the month and the first commit in it count as of the month,
// because a SEAL does not have its own time.
func (q *search) count(ctx context.Context, epochs []state.Epoch, end state.Position) (n int64, exact bool) {
	for i := len(epochs) - 1; i >= 0; i-- {
		e, data, first := &epochs[i], end.Slot, uint64(0)
		last := q.known && e.Number <= q.from.Epoch
		if last {
			first = q.from.Slot
		}
		older := false // no DATA of the epoch is of the month
		if e.Number != end.Epoch {
			n++
			data = e.Seal
			at, found := q.time(ctx, e.Number, e.Seal, record.KindSeal)
			if !found {
				return n, false
			}
			older = at < q.month
		}
		if older && data > first {
			return n, true
		}
		begin, exact := q.begin(ctx, epochs[:i+1], first, data)
		if n += int64(data - begin); begin > first || last {
			return n, exact
		}
		if i == 0 || epochs[i-1].Number+1 != e.Number {
			return n, e.Number == 0
		}
	}
	return n, false
}

// begin returns the first slot in [first, data) of the last of the epochs that is of the month, or
// data. exact is false if it may have been an earlier one.
func (q *search) begin(ctx context.Context, epochs []state.Epoch, first, data uint64) (slot uint64, exact bool) {
	if first >= data {
		return data, true
	}
	e := &epochs[len(epochs)-1]
	at, before := q.time(ctx, e.Number, first, record.KindData)
	if before && at >= q.month {
		return first, true
	}
	if n := len(epochs); !before && n > 1 && epochs[n-2].Number+1 == e.Number {
		at, found := q.time(ctx, e.Number-1, epochs[n-2].Seal, record.KindSeal)
		if found && at >= q.month {
			return first, true
		}
	}
	// All slots below low are gone or older, slot high is of the month. before: slot low-1 is older.
	low, high := first+1, data
	for low < high {
		middle := low + (high-low)/2
		at, found := q.time(ctx, e.Number, middle, record.KindData)
		if found && at >= q.month {
			high = middle
			continue
		}
		low, before = middle+1, found
	}
	return low, before
}

// between returns the number of commit objects from a position to the end. ok is false if the state
// has forgotten an epoch between them.
func between(epochs []state.Epoch, from, end state.Position) (n int64, ok bool) {
	if from.Epoch == end.Epoch {
		return int64(end.Slot - from.Slot), true
	}
	n = int64(end.Slot)
	for i := len(epochs) - 2; i >= 0; i-- {
		e := &epochs[i]
		if e.Number+1 != epochs[i+1].Number {
			return 0, false
		}
		if n += int64(e.Seal) + 1; e.Number == from.Epoch {
			return n - int64(from.Slot), true
		}
	}
	return 0, false
}

// monthOf returns the begin of the calendar month of a time.
func monthOf(t time.Time) time.Time {
	year, month, _ := t.UTC().Date()
	return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
}

// File is the name of the file in the data folder.
const File = "costs.json"

// accountsMax bounds the buckets in the file; the oldest are removed first.
const accountsMax = 64

// account has the requests of a bucket in a month.
type account struct {
	Store   string    `json:"store"` // bucket, prefix and endpoint
	Cluster string    `json:"cluster"`
	Month   time.Time `json:"month"` // its begin
	// Commits are the commit objects since CommitsSince and before the position.
	Commits      int64     `json:"commits"`
	CommitsSince time.Time `json:"commits_since"`
	Epoch        uint32    `json:"epoch"`
	Nonce        string    `json:"nonce"` // of the epoch
	Slot         uint64    `json:"slot"`
	// Hour is the commit objects of the hour before HourAt, the time of the newest change of Commits.
	// Without a budget both are zero.
	Hour   int64     `json:"hour,omitempty"`
	HourAt time.Time `json:"hour_at,omitzero"`
	// Others are the other requests of the brokers with this data folder since OthersSince.
	Others      requests  `json:"others"`
	OthersSince time.Time `json:"others_since"`
}

func (a *account) position() state.Position { return state.Position{Epoch: a.Epoch, Slot: a.Slot} }

// requests are other requests than PUTs of commit objects.
type requests struct {
	Put    int64 `json:"put"`
	List   int64 `json:"list"`
	Get    int64 `json:"get"`
	Delete int64 `json:"delete"`
}

// othersOf returns requests without the PUTs of commits. A PUT counts as another request until its
// commit is known.
func othersOf(r objstore.Requests, commits int64) requests {
	return requests{Put: r.Put - commits, List: r.List, Get: r.Get, Delete: r.Delete}
}

func (r requests) sub(b requests) requests {
	return requests{r.Put - b.Put, r.List - b.List, r.Get - b.Get, r.Delete - b.Delete}
}

func (r requests) add(b requests) requests {
	return requests{r.Put + b.Put, r.List + b.List, r.Get + b.Get, r.Delete + b.Delete}
}

// puts returns the requests that a budget counts, in PUTs.
func (a *account) puts(p *Prices) float64 {
	n := float64(max(0, a.Commits) + max(0, a.Others.Put))
	if p.Put > 0 {
		n += float64(max(0, a.Others.List)) * p.List / p.Put
	}
	return n
}

// parseAccounts reads a file. An unreadable one counts as lost.
func parseAccounts(b []byte) []account {
	var all []account
	if json.Unmarshal(b, &all) != nil {
		return nil
	}
	return all
}

// encodeAccounts returns the file with the account in the place of that of its store.
func encodeAccounts(others []account, a *account) []byte {
	all := append(others[max(0, len(others)+1-accountsMax):len(others):len(others)], *a)
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		panic("cost: encode accounts: " + err.Error()) // no value of an account can fail
	}
	return append(b, '\n')
}
