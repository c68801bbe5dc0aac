package auth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

// Kind is what a limit of a quota counts.
type Kind uint8

// The kinds.
const (
	Requests Kind = iota // requests
	Produced             // bytes of requests that write
	Fetched              // bytes of answers to reads
	kinds
)

func (k Kind) String() string { return [kinds]string{"requests", "produce", "fetch"}[k] }

const (
	// burst is the use that a principal without recent requests has at once: that of a second.
	burst = time.Second
	// RequestDebtMax bounds the debt that a single request leaves. So a request is never delayed for
	// longer by one earlier request, and one that is larger than this counts as less than its size.
	RequestDebtMax = 30 * time.Second
)

// ErrQuota: a principal has used more than its quota. QuotaError has the details.
var ErrQuota = errors.New("quota exceeded")

// QuotaError: a request is refused until the use of a principal is within its quota again. It is
// ErrQuota.
type QuotaError struct {
	Kind  Kind
	Limit uint64 // per second
	Wait  time.Duration
}

func (e *QuotaError) Error() string {
	unit := map[Kind]string{Requests: "requests", Produced: "produced bytes", Fetched: "fetched bytes"}[e.Kind]
	return fmt.Sprintf("quota of %d %s per second exceeded: retry in %s", e.Limit, unit, e.Wait.Round(time.Millisecond))
}

// Is reports whether target is ErrQuota.
func (e *QuotaError) Is(target error) bool { return target == ErrQuota }

// bucket is a token bucket that may go into debt, because the size of an answer is known only after
// it was made. Its state is a point in time, the one at which all use is paid for:
//
//	paid = max(paid, now - burst) + use / rate
//
// Use is refused while paid is after now; the difference is the debt.
type bucket struct {
	rate uint64       // per second; 0: unlimited
	paid atomic.Int64 // ns of the clock
}

// cost is the time in which the rate pays for n.
func (b *bucket) cost(n int64) int64 {
	return int64(min(float64(n)/float64(b.rate)*float64(time.Second), float64(RequestDebtMax)))
}

// take uses n if there is no debt, and returns the debt otherwise.
func (b *bucket) take(now, n int64) (debt int64) {
	if b.rate == 0 {
		return 0
	}
	for {
		paid := b.paid.Load()
		if paid > now {
			return paid - now
		}
		if b.paid.CompareAndSwap(paid, max(paid, now-int64(burst))+b.cost(n)) {
			return 0
		}
	}
}

// add uses n, whatever the debt.
func (b *bucket) add(now, n int64) {
	for b.rate != 0 {
		paid := b.paid.Load()
		if b.paid.CompareAndSwap(paid, max(paid, now-int64(burst))+b.cost(n)) {
			return
		}
	}
}

func (b *bucket) debt(now int64) int64 {
	if b.rate == 0 {
		return 0
	}
	return max(0, b.paid.Load()-now)
}

// Meter counts the use of a principal on this broker. All connections of the principal share it,
// over HTTP and Kafka. The nil Meter has no limits. Its methods may be called concurrently; they do
// not lock and do not allocate.
type Meter struct {
	of      *meters
	quota   access.Quota
	buckets [kinds]bucket
	gone    atomic.Bool // replaced by another one, or forgotten
}

// Limit is the limit of a kind per second, or 0.
func (m *Meter) Limit(k Kind) uint64 {
	if m == nil {
		return 0
	}
	return m.buckets[k].rate
}

// Begin counts a request that uses n of a kind, if the principal has no debt of requests and of that
// kind. Otherwise it counts nothing and returns the time until the debt is paid.
func (m *Meter) Begin(k Kind, n int64) time.Duration {
	if m == nil {
		return 0
	}
	now := m.of.clock()
	if k != Requests {
		if debt := m.buckets[k].debt(now); debt > 0 {
			return time.Duration(debt)
		}
	}
	requests := &m.buckets[Requests]
	debt := requests.take(now, 1)
	if debt == 0 && k != Requests {
		if debt = m.buckets[k].take(now, n); debt > 0 && requests.rate != 0 {
			requests.paid.Add(-requests.cost(1)) // another request was first
		}
	}
	return time.Duration(debt)
}

// Use counts n of a kind that was used.
func (m *Meter) Use(k Kind, n int64) {
	if m != nil && n > 0 {
		m.buckets[k].add(m.of.clock(), n)
	}
}

// Throttle returns the debt of a principal for the next request of a kind, or nil. It counts the
// debt as a throttled request in the metrics.
func (m *Meter) Throttle(k Kind) *QuotaError {
	if m == nil {
		return nil
	}
	now := m.of.clock()
	if debt := m.buckets[Requests].debt(now); debt >= m.buckets[k].debt(now) {
		k = Requests
	}
	debt := m.buckets[k].debt(now)
	if debt == 0 {
		return nil
	}
	m.of.throttled[k].Inc()
	return &QuotaError{Kind: k, Limit: m.buckets[k].rate, Wait: time.Duration(debt)}
}

// idle reports whether a new Meter would have the same state.
func (m *Meter) idle(now int64) bool {
	for k := range m.buckets {
		if m.buckets[k].rate != 0 && m.buckets[k].paid.Load() > now-int64(burst) {
			return false
		}
	}
	return true
}

const (
	// metersMax bounds the meters. At the bound a quarter of the principals lose their debt.
	metersMax = 16 << 10
	// metersMin is the number of meters from which idle ones are looked for.
	metersMin = 1 << 10
)

// meters are the meters of the principals that have a quota and were active recently.
type meters struct {
	clock     func() int64 // ns since the start
	throttled [kinds]*metrics.Counter

	mu    sync.Mutex // guards the fields below; taken once per identity and change of the table
	all   map[string]*Meter
	sweep int // number of meters at which idle ones are forgotten
}

func newMeters(clock func() int64, set *metrics.Set) *meters {
	s := &meters{clock: clock, all: map[string]*Meter{}, sweep: metersMin}
	for k := range kinds {
		s.throttled[k] = set.GetOrCreateCounter(fmt.Sprintf("seb_quota_throttled_total{kind=%q}", k))
	}
	return s
}

// meter returns the meter of a principal with a quota, or nil without a limit. A principal whose
// quota has changed begins without debt.
func (s *meters) meter(id string, q access.Quota) *Meter {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.all[id]
	if m != nil && m.quota == q {
		return m
	}
	if m != nil {
		m.gone.Store(true)
		delete(s.all, id)
	}
	if !q.Limits() {
		return nil
	}
	s.makeRoomLocked()
	m = &Meter{of: s, quota: q}
	now := s.clock()
	for k, rate := range [kinds]uint64{Requests: q.Requests, Produced: q.ProduceBytes, Fetched: q.FetchBytes} {
		m.buckets[k].rate = rate
		m.buckets[k].paid.Store(now - int64(burst))
	}
	s.all[id] = m
	return m
}

func (s *meters) makeRoomLocked() {
	if len(s.all) < s.sweep {
		return
	}
	now := s.clock()
	for id, m := range s.all {
		if m.idle(now) {
			m.gone.Store(true)
			delete(s.all, id)
		}
	}
	for id, m := range s.all {
		if len(s.all) <= metersMax/4*3 {
			break
		}
		m.gone.Store(true)
		delete(s.all, id)
	}
	s.sweep = min(metersMax, max(metersMin, 2*len(s.all)))
}

// ErrUnknownQuota: the principal has no quota of its own.
var ErrUnknownQuota = errors.New("unknown quota")

// Meter returns the meter of the client's quota; nil if it has none. The nil Identity and the root
// key have none.
func (i *Identity) Meter() *Meter {
	if i == nil || i.Root() {
		return nil
	}
	g := i.current()
	m := g.meter.Load()
	if m != nil && m.gone.Load() {
		m = i.a.meters.meter(i.id, g.in.table.QuotaFor(i.id))
		g.meter.Store(m)
	}
	return m
}

// Changed returns a channel that is closed after the next change of principals, rules or quotas.
func (i *Identity) Changed() <-chan struct{} { return *i.a.watches.changed.Load() }

// ChangeQuota changes the quota of a principal, or of access.Any, and waits until that is committed.
// change gets the quota, without limits if there is none, and returns why it cannot be changed. A
// quota without limits is deleted. Errors: that of change, *state.InvalidError, and those of
// broker.ChangeAccess.
func (a *Authority) ChangeQuota(ctx context.Context, principal string, change func(*access.Quota) error) error {
	return a.b.ChangeAccess(ctx, func(t *access.Table) (access.Change, error) { return planQuota(t, principal, change) })
}

// CheckQuota returns the error with which ChangeQuota would refuse a change by the newest committed
// state. It changes nothing.
func (a *Authority) CheckQuota(principal string, change func(*access.Quota) error) error {
	t := a.b.Access()
	c, err := planQuota(t, principal, change)
	switch level := a.b.Level().Now; {
	case err != nil || c.IsEmpty():
		return err
	case level < state.LevelSecrets:
		return &state.LevelError{Needs: state.LevelSecrets, Has: level}
	case !t.Fits(&c):
		return state.ErrAccessFull
	}
	return nil
}

func planQuota(t *access.Table, principal string, change func(*access.Quota) error) (access.Change, error) {
	old, known := t.Quota(principal)
	q := old
	q.Principal = principal
	if err := change(&q); err != nil {
		return access.Change{}, err
	}
	switch {
	case known && q == old, !known && !q.Limits():
		return access.Change{}, nil
	case !q.Limits():
		return access.Change{DeleteQuotas: []string{principal}}, nil
	}
	if err := q.Check(); err != nil {
		return access.Change{}, invalid("quota", "%v", err)
	}
	return access.Change{PutQuotas: []access.Quota{q}}, nil
}
