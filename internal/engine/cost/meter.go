package cost

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

// Log is the log whose commit objects are counted; *broker.Broker implements it.
type Log interface {
	// Cluster is the ID of the bucket's log.
	Cluster() record.ID
	// LeadingEpoch is the epoch that this broker leads; 0: it follows.
	LeadingEpoch() uint32
	// LogPosition returns the committed position and the nonce of its epoch. known is false before
	// the log is loaded.
	LogPosition() (pos state.Position, nonce record.ID, known bool)
	// Passed reports whether a position is on the committed log, or in an epoch that it has forgotten.
	Passed(pos state.Position, nonce record.ID) bool
	// Chain returns the known epochs, ascending, and the committed position in the last of them.
	Chain() (epochs []state.Epoch, end state.Position)
	// SlotHead reads the head of a commit object. It returns nil if the object is gone.
	SlotHead(ctx context.Context, pos state.Position) (*record.Head, error)
	// StoredBytes is the size of the batches in the bucket.
	StoredBytes() int64
}

// Options configure Open. All fields are required, except those that say so.
type Options struct {
	Log Log
	// Requests counts the requests to the store; nil: its requests have no price, as on a disk.
	Requests objstore.Counting
	Prices   Prices
	Limiter  *Limiter // gets the counts; nil: none
	Store    string   // name of the bucket
	// Saved is the content of File, nil without one. Save replaces the file; nil: there is no data
	// folder.
	Saved  []byte
	Save   func([]byte) error
	Logger *slog.Logger
	Now    func() time.Time // default time.Now
}

const (
	// saveEvery is the minimum interval between two writes of the file.
	saveEvery = time.Minute
	// paceSpan is the time over which the pace is measured, in steps of paceStep.
	paceSpan, paceStep = time.Hour, time.Minute
	// readTimeout bounds all reads of a search.
	readTimeout = 10 * time.Second
)

// Meter counts the requests. Its methods may be called concurrently.
type Meter struct {
	o       Options
	dollars atomic.Uint64 // bits of the dollars of the month

	mu      sync.Mutex // guards the fields below; held during the reads of a search
	begun   bool
	account account
	others  []account // of other buckets
	seen    requests  // of this process, in account
	led     led       // the newest epoch that this process has led
	ledOnce int64     // commit objects of those before it
	commits int64     // counted since begun
	pace    []pacePoint
	saved   account // as in the file
	savedAt time.Time
	failed  bool // the last Save failed
}

// pacePoint has the requests of this process up to a time.
type pacePoint struct {
	at      time.Time
	commits int64
	others  requests
}

// Open returns a meter that has counted nothing yet: call Sample.
func Open(o Options) *Meter {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Meter{o: o}
}

// Sample counts the requests up to now and saves the numbers, at most once a minute. The first
// Sample, and the first one of a month, may read from the store. Call it at least every few minutes.
func (m *Meter) Sample() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.sample()
	if m.account != m.saved && now.Sub(m.savedAt).Abs() >= saveEvery {
		m.save(now)
	}
}

// Close counts for the last time and saves the numbers.
func (m *Meter) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.sample(); m.account != m.saved {
		m.save(now)
	}
}

// Dollars returns the price of the requests of the month up to the last sample.
func (m *Meter) Dollars() float64 { return math.Float64frombits(m.dollars.Load()) }

// sample brings the account up to date. Until the log is known it does nothing.
func (m *Meter) sample() (now time.Time) {
	now = m.o.Now().UTC()
	pos, nonce, known := m.o.Log.LogPosition()
	if !known {
		return now
	}
	if !m.begun {
		m.begin(now)
	}
	before := m.account.Commits
	n := m.countCommits(now, pos, nonce)
	if m.o.Requests != nil {
		of := othersOf(m.o.Requests.Requests(), m.ownCommits(pos, nonce))
		m.account.Others = m.account.Others.add(of.sub(m.seen))
		m.seen = of
	}
	m.limit(now, n, m.account.Commits != before)
	m.begun = true
	if n := len(m.pace); n == 0 || now.Sub(m.pace[n-1].at) >= paceStep {
		m.pace = append(m.pace, pacePoint{now, m.commits, m.seen})
	}
	m.pace = slices.DeleteFunc(m.pace, func(p pacePoint) bool { return now.Sub(p.at) > paceSpan || p.at.After(now) })
	m.dollars.Store(math.Float64bits(m.price(m.account.Commits, m.account.Others)))
	return now
}

// led is an epoch that a broker leads or has led.
type led struct {
	nonce   record.ID
	commits int64 // its slots, all of which this broker has written, and the SEAL that began it
}

// ownCommits returns the number of commit objects that this process has written.
func (m *Meter) ownCommits(pos state.Position, nonce record.ID) int64 {
	now := led{nonce, int64(pos.Slot) + 1}
	switch {
	case nonce == m.led.nonce:
		m.led = now
		return m.ledOnce + m.led.commits
	case m.led.commits > 0: // the epoch is over: only now all its slots are known
		epochs, _ := m.o.Log.Chain()
		if i := slices.IndexFunc(epochs, func(e state.Epoch) bool { return e.Nonce == m.led.nonce }); i >= 0 && i < len(epochs)-1 {
			m.led.commits = int64(epochs[i].Seal) + 1
		}
	}
	if epoch := m.o.Log.LeadingEpoch(); epoch != 0 && epoch == pos.Epoch {
		m.ledOnce, m.led = m.ledOnce+m.led.commits, now
	}
	return m.ledOnce + m.led.commits
}

// limit tells the limiter what was counted. n is the commit objects since the last count.
func (m *Meter) limit(now time.Time, n int64, changed bool) {
	a, l := &m.account, m.o.Limiter
	if l == nil {
		return
	}
	s := spending{month: a.Month, puts: a.puts(&m.o.Prices), whole: a.CommitsSince.Equal(a.Month), othersWhole: a.OthersSince.Equal(a.Month)}
	switch {
	case m.begun:
		l.spent(s, n)
	case a.HourAt.IsZero():
		l.begin(s, m.searchHour(now))
	default:
		l.begin(s, hourCount{a.Hour, a.HourAt, n})
	}
	if changed || a.HourAt.IsZero() {
		a.Hour, a.HourAt = l.lastHour(), now.Truncate(time.Second)
	}
}

// searchHour counts the commit objects of the last hour in the log. If some of them were merged, the
// hour is charged at the rate of the others. If the store does not answer, the hour counts as full.
func (m *Meter) searchHour(now time.Time) hourCount {
	epochs, end := m.o.Log.Chain()
	q := search{log: m.o.Log, month: now.Add(-time.Hour).UnixMicro()}
	n, exact := q.find(epochs, end)
	switch {
	case q.err != nil:
		m.o.Logger.Warn("commit objects of the last hour not found in the log", "err", q.err)
		n = math.MaxInt32
	case !exact && q.oldest > 0:
		age := max(now.Sub(time.UnixMicro(q.oldest)), time.Minute)
		n = max(n, int64(float64(n)*float64(time.Hour)/float64(age)))
	}
	return hourCount{n: n, before: now}
}

// begin continues the saved account of the bucket, or starts one.
func (m *Meter) begin(now time.Time) {
	cluster := m.o.Log.Cluster().String()
	m.others = parseAccounts(m.o.Saved)
	i := slices.IndexFunc(m.others, func(a account) bool { return a.Store == m.o.Store })
	if i >= 0 {
		a := m.others[i]
		m.others = slices.Delete(m.others, i, i+1)
		nonce, err := record.ParseID(a.Nonce)
		if err == nil && a.Cluster == cluster && !a.Month.After(now) && m.o.Log.Passed(a.position(), nonce) {
			m.account, m.saved = a, a
			return
		}
	}
	m.account = account{Store: m.o.Store, Cluster: cluster, OthersSince: now.Truncate(time.Second)}
	if m.o.Log.LeadingEpoch() == 1 {
		m.account.OthersSince = monthOf(now) // this process has made the log, so it has sent all requests
	}
}

// countCommits advances the account to the end of the log, and returns how many objects it added.
func (m *Meter) countCommits(now time.Time, pos state.Position, nonce record.ID) (n int64) {
	a, month := &m.account, monthOf(now)
	if a.Month.Equal(month) && a.position() == pos && a.Nonce == nonce.String() {
		return 0
	}
	epochs, end := m.o.Log.Chain()
	from, known := a.position(), a.Nonce != ""
	n, all := between(epochs, from, end)
	switch sameMonth := a.Month.Equal(month); {
	case known && all && sameMonth:
		a.Commits += n
	default:
		q := search{log: m.o.Log, month: month.UnixMicro(), from: from, known: known}
		since := month
		var exact bool
		if n, exact = q.find(epochs, end); !exact {
			if since = now.Truncate(time.Second); q.oldest > 0 {
				since = time.UnixMicro(q.oldest).UTC().Truncate(time.Second)
			}
		}
		if q.err != nil {
			m.o.Logger.Warn("begin of the month not found in the log", "err", q.err)
		}
		if sameMonth { // the state has forgotten the epochs after the position
			a.Commits += n
			break
		}
		if known { // the broker knows everything that it sent before this month
			a.Others, a.OthersSince = requests{}, month
		}
		a.Month, a.Commits, a.CommitsSince = month, n, since
	}
	if m.begun {
		m.commits += n
	}
	a.Epoch, a.Slot = end.Epoch, end.Slot
	a.Nonce = epochs[len(epochs)-1].Nonce.String()
	return n
}

// find is count with a timeout.
func (q *search) find(epochs []state.Epoch, end state.Position) (n int64, exact bool) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	return q.count(ctx, epochs, end)
}

func (m *Meter) save(now time.Time) {
	if m.o.Save == nil || !m.begun {
		return
	}
	err := m.o.Save(encodeAccounts(m.others, &m.account))
	if m.savedAt = now; err == nil {
		m.saved = m.account
	} else if !m.failed {
		m.o.Logger.Warn("costs not saved in the data folder", "err", err)
	}
	m.failed = err != nil
}

// price returns the dollars of requests.
func (m *Meter) price(commits int64, others requests) (dollars float64) {
	for _, line := range m.lines(commits, others) {
		dollars += line.Dollars
	}
	return dollars
}

// lines returns requests by kind, with their prices. Of a store without counted requests only the
// commit objects are known.
func (m *Meter) lines(commits int64, others requests) []Requests {
	p := &m.o.Prices
	lines := []Requests{
		{Kind: "commit", Count: commits, PerMillion: p.Put},
		{Kind: "put", Count: others.Put, PerMillion: p.Put},
		{Kind: "list", Count: others.List, PerMillion: p.List},
		{Kind: "get", Count: others.Get, PerMillion: p.Get},
		{Kind: "delete", Count: others.Delete},
	}
	if m.o.Requests == nil {
		lines = lines[:1]
	}
	for i := range lines {
		lines[i].Count = max(0, lines[i].Count)
		lines[i].Dollars = float64(lines[i].Count) * lines[i].PerMillion / 1e6
	}
	return lines
}

// Report returns the costs up to now. It makes no request to the store, unless it is the first
// sample of a month.
func (m *Meter) Report() Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, a, bytes := m.sample(), &m.account, m.o.Log.StoredBytes()
	c := Report{
		Month: cmp.Or(a.Month, monthOf(now)).Format("2006-01"), Prices: m.o.Prices.Name, Requests: m.lines(a.Commits, a.Others), Dollars: m.Dollars(),
		Storage: Storage{Bytes: bytes, PerGBMonth: m.o.Prices.Storage, MonthDollars: float64(bytes) / 1e9 * m.o.Prices.Storage},
	}
	for i := range c.Requests {
		if c.Requests[i].Since = a.OthersSince; i == 0 {
			c.Requests[i].Since = a.CommitsSince
		}
	}
	if len(m.pace) > 0 && now.Sub(m.pace[0].at) >= paceStep {
		from := &m.pace[0]
		span := now.Sub(from.at)
		c.PaceSeconds = int(span / time.Second)
		for i, line := range m.lines(m.commits-from.commits, m.seen.sub(from.others)) {
			hours := float64(HoursPerMonth) / span.Hours()
			c.Requests[i].MonthCount = int64(math.Round(float64(line.Count) * hours))
			c.Requests[i].MonthDollars = line.Dollars * hours
			c.MonthDollars += c.Requests[i].MonthDollars
		}
	}
	c.MonthDollars += c.Storage.MonthDollars
	if m.o.Limiter != nil {
		c.PutBudget = m.o.Limiter.Report()
	}
	return c
}
