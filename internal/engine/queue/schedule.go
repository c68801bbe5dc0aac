package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // zones for machines without their own
	"unicode"
	"unicode/utf8"

	"github.com/robfig/cron/v3"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// Bounds of schedules.
const (
	SchedulesMax  = 1000 // of a queue
	scheduleBytes = 64 << 10
	scheduleName  = 128
	runsMax       = 100 // missed runs of a slot
)

// HeaderScheduled is the header of a message of a schedule: its time, as in RFC 3339.
const HeaderScheduled = HeaderPrefix + "scheduled"

// The values of Schedule.Missed: what happens at times at which no broker led.
const (
	RunOnce = "run-once" // one message for all of them
	Skip    = "skip"     // none, if they are over for a minute
	RunAll  = "run-all"  // one for each
)

// skipAfter is the age from which on a time is missed.
const skipAfter = time.Minute

// ErrUnknownSchedule: the queue has no such schedule.
var ErrUnknownSchedule = errors.New("unknown schedule")

// Schedule sends a message at times.
type Schedule struct {
	Name     string          `json:"-"`
	Cron     string          `json:"cron"`             // five fields, or @daily and others
	Zone     string          `json:"zone,omitempty"`   // of the IANA; "": UTC
	Missed   string          `json:"missed,omitempty"` // "": RunOnce
	Priority int             `json:"priority,omitempty"`
	Key      []byte          `json:"key,omitempty"`
	Value    []byte          `json:"value,omitempty"`
	Headers  []record.Header `json:"headers,omitempty"`
	// Next is when it sends next, at a schedule that is stored; zero: never.
	Next time.Time `json:"-"`
}

// never is the next time of a schedule without one, µs.
const never = 1 << 62

// Times returns the next times of a stored schedule, at most n.
func (s *Schedule) Times(n int) (times []time.Time) {
	p, err := s.parse(PrioritiesMax)
	for at := s.Next; !at.IsZero() && len(times) < n; at = p.after(at) {
		if times = append(times, at); err != nil { // this machine does not know the zone
			break
		}
	}
	return times
}

// plan is a parsed Schedule.
type plan struct {
	times cron.Schedule
	zone  *time.Location
}

var cronParser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// parse checks a schedule.
func (s *Schedule) parse(priorities int) (p plan, err error) {
	invalid := func(field, format string, args ...any) (plan, error) {
		return plan{}, &state.InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
	}
	if s.Name == "" || len(s.Name) > scheduleName || !utf8.ValidString(s.Name) || strings.ContainsFunc(s.Name, unicode.IsControl) {
		return invalid("name", "%.64q: want 1 to %d bytes of text", s.Name, scheduleName)
	}
	if strings.Contains(s.Cron, "TZ=") || strings.HasPrefix(s.Cron, "@every") {
		return invalid("cron", "%.64q: want five fields or @hourly, @daily, @weekly, @monthly, @yearly; the zone is a member of its own", s.Cron)
	}
	if p.times, err = cronParser.Parse(sundays(s.Cron)); err != nil {
		return invalid("cron", "%.64q: %v", s.Cron, err)
	}
	if p.zone, err = time.LoadLocation(s.Zone); err != nil || s.Zone == "Local" {
		return invalid("zone", "%.64q is not a zone such as Europe/Copenhagen", s.Zone)
	}
	switch {
	case !slices.Contains([]string{"", RunOnce, Skip, RunAll}, s.Missed):
		return invalid("missed", "%.32q is not run-once, skip or run-all", s.Missed)
	case s.Priority < 0 || s.Priority >= priorities:
		return invalid("priority", "%d is not between 0 and %d", s.Priority, priorities-1)
	case p.after(time.Unix(0, 0)).IsZero():
		return invalid("cron", "%.64q: there is no such time", s.Cron)
	}
	for i := range s.Headers {
		if strings.HasPrefix(s.Headers[i].Key, HeaderPrefix) {
			return invalid("headers", "%q begins with %s, as those of Seb do", s.Headers[i].Key, HeaderPrefix)
		}
	}
	return p, nil
}

// spec checks a schedule, sets its next time after now, and returns it as it is stored.
func (s *Schedule) spec(priorities int, now int64) (*state.QueueSchedule, error) {
	p, err := s.parse(priorities)
	if err != nil {
		return nil, err
	}
	if s.Next = p.after(time.UnixMicro(now)); s.Next.IsZero() {
		return nil, &state.InvalidError{Field: "cron", Reason: fmt.Sprintf("%.64q: there is no such time", s.Cron)}
	}
	text, err := json.Marshal(s)
	if err == nil && len(text) > scheduleBytes {
		err = &state.InvalidError{Field: "schedule", Reason: fmt.Sprintf("%d bytes, limit %d", len(text), scheduleBytes)}
	}
	return &state.QueueSchedule{Name: s.Name, Spec: string(text), Next: s.Next.UnixMicro()}, err
}

// sundays writes the 7 of a day of the week, which many programs take for Sunday, as 0.
func sundays(cron string) string {
	fields := strings.Fields(cron)
	if len(fields) != 5 {
		return cron
	}
	days := strings.Split(fields[4], ",")
	for i := range days {
		switch from, to, ok := strings.Cut(days[i], "-"); {
		case days[i] == "7":
			days[i] = "0"
		case ok && to == "7" && from != "7": // a range cannot go beyond Saturday
			days[i] = from + "-6,0"
		}
	}
	fields[4] = strings.Join(days, ",")
	return strings.Join(fields, " ")
}

// after returns the first time of the plan after a time; zero: there is none. The clock of the zone decides:
// a time in an hour that it skips is at the end of that hour, and one in an hour that it repeats is in the
// first of both.
func (p *plan) after(t time.Time) time.Time {
	for w := p.wall(t).Add(-3 * time.Hour); ; { // a clock may have been set back
		if w = p.times.Next(w); w.IsZero() {
			return w
		}
		if at := p.instant(w); at.After(t) {
			return at
		}
	}
}

// wall returns what the clock and the calendar of the zone show at a time, as if it were UTC.
func (p *plan) wall(t time.Time) time.Time {
	t = t.In(p.zone)
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// instant returns the time at which the clock of the zone shows w first, or passes it.
func (p *plan) instant(w time.Time) time.Time {
	at := time.Date(w.Year(), w.Month(), w.Day(), w.Hour(), w.Minute(), w.Second(), 0, p.zone)
	start, end := at.ZoneBounds()
	switch shown := p.wall(at); { // with the date: at may be on the day before, or a day may be skipped
	case shown.After(w):
		return start
	case shown.Before(w):
		return end
	}
	if !start.IsZero() { // the hour before the clock was set back shows it, too
		_, now := at.Zone()
		_, was := start.Add(-time.Second).Zone()
		if earlier := at.Add(time.Duration(now-was) * time.Second); was > now && earlier.Before(start) {
			return earlier
		}
	}
	return at
}

// CheckSchedule returns a schedule with its next time, as SetSchedule would store it. Errors: as of Info,
// ErrInvalid.
func (m *Queues) CheckSchedule(queue string, s Schedule) (Schedule, error) {
	r, _, err := m.settings(queue)
	if err == nil {
		_, err = s.spec(r.Partitions, m.now())
	}
	return s, err
}

// SetSchedule makes or replaces a schedule of a queue, and waits until that is stored. Its next time is
// computed again. Errors: as of Lease, ErrInvalid, *LimitError, *FullError, and those of an append.
func (m *Queues) SetSchedule(ctx context.Context, queue string, s Schedule) (Schedule, error) {
	l, end, err := m.lockSchedules(ctx, queue)
	if err != nil {
		return s, err
	}
	defer end()
	spec, err := s.spec(l.ref().Partitions, m.now())
	if err != nil {
		return s, err
	}
	was, n := m.schedule(l.ref(), s.Name)
	switch full := m.full(); {
	case was == nil && n >= SchedulesMax:
		return s, &LimitError{Setting: "number of schedules of a queue", Max: SchedulesMax}
	case full != nil && (was == nil || len(spec.Spec) > len(was.Spec)):
		return s, full
	}
	return s, m.putSchedule(ctx, l, *spec, "queue.schedule")
}

// DeleteSchedule removes a schedule. Errors: as of SetSchedule, ErrUnknownSchedule.
func (m *Queues) DeleteSchedule(ctx context.Context, queue, name string) error {
	l, end, err := m.lockSchedules(ctx, queue)
	if err != nil {
		return err
	}
	defer end()
	if was, _ := m.schedule(l.ref(), name); was == nil {
		return ErrUnknownSchedule
	}
	return m.putSchedule(ctx, l, state.QueueSchedule{Name: name}, "queue.unschedule")
}

func (m *Queues) putSchedule(ctx context.Context, l *live, s state.QueueSchedule, action string) error {
	u := m.update(l, 0)
	u.Change = &state.QueueChange{Schedule: &s}
	err := m.b.ChangeQueue(ctx, u, action, l.ref().Name, "schedule", s.Name)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.touch(l)
	return err
}

// Schedules lists the names of a queue's schedules, sorted. Errors: as of Info.
func (m *Queues) Schedules(queue string) (names []string, err error) {
	r, _, err := m.settings(queue)
	if err != nil {
		return nil, err
	}
	m.b.ReadQueue(r.ID, 0, func(q *state.Queue, _ *state.Partition) {
		for i := range q.Schedules {
			names = append(names, q.Schedules[i].Name)
		}
	})
	return names, nil
}

// Schedule returns a schedule of a queue. Errors: as of Info, ErrUnknownSchedule.
func (m *Queues) Schedule(queue, name string) (s Schedule, err error) {
	r, _, err := m.settings(queue)
	if err != nil {
		return s, err
	}
	is, _ := m.schedule(&r, name)
	if is == nil {
		return s, ErrUnknownSchedule
	}
	if err := json.Unmarshal([]byte(is.Spec), &s); err != nil {
		return s, fmt.Errorf("schedule %s: %w", name, err)
	}
	if s.Name = name; is.Next != never {
		s.Next = time.UnixMicro(is.Next)
	}
	return s, nil
}

// schedule returns a schedule of a queue, nil if there is none, and how many the queue has.
func (m *Queues) schedule(r *broker.TopicRef, name string) (s *state.QueueSchedule, n int) {
	m.b.ReadQueue(r.ID, 0, func(q *state.Queue, _ *state.Partition) {
		n = len(q.Schedules)
		i, found := slices.BinarySearchFunc(q.Schedules, name, func(s state.QueueSchedule, name string) int { return strings.Compare(s.Name, name) })
		if found {
			s = new(q.Schedules[i])
		}
	})
	return s, n
}

// lockSchedules waits until no schedule of a queue is changed or sends, and keeps others from it until end.
func (m *Queues) lockSchedules(ctx context.Context, queue string) (l *live, end func(), err error) {
	for {
		if l, err = m.lock(ctx, queue); err != nil {
			return nil, nil, err
		}
		busy := l.scheduling
		if busy == nil {
			end = m.beginSchedules(l)
			m.mu.Unlock()
			return l, end, nil
		}
		m.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

func (m *Queues) beginSchedules(l *live) (end func()) {
	busy := make(chan struct{})
	l.scheduling = busy
	l.pending++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		l.scheduling = nil
		close(busy)
		m.touch(l)
		m.settled(l)
	}
}

// fire sends the messages of schedules whose time has come. It returns the next time.
func (m *Queues) fire(l *live, now int64) (next int64) {
	next = math.MaxInt64
	if l.scheduling != nil || l.core.Settings.Paused {
		return next
	}
	var due []state.QueueSchedule
	m.b.ReadQueue(l.ref().ID, 0, func(q *state.Queue, _ *state.Partition) {
		for i := range q.Schedules {
			if s := &q.Schedules[i]; s.Next <= now {
				due = append(due, *s)
			} else {
				next = min(next, s.Next)
			}
		}
	})
	if len(due) == 0 || now < l.fireAt {
		if len(due) > 0 {
			next = min(next, l.fireAt)
		}
		return next
	}
	end, ctx := m.beginSchedules(l), m.ctx
	u := *m.update(l, 0)
	m.busy.Go(func() {
		defer end()
		var errs []error
		for i := range due {
			if err := m.runOne(ctx, l, u, &due[i], now); err != nil {
				errs = append(errs, fmt.Errorf("schedule %s: %w", due[i].Name, err))
			}
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
			l.fireAt = m.now() + micros(time.Second)
			m.lines.Warn(m.log, l.ref().Name, "a schedule of a queue failed; trying again", "queue", l.ref().Name, "err", err)
		}
	})
	return next
}

// runOne sends what is due of a schedule together with its next time, in one slot. So each time has one
// message over takeovers.
func (m *Queues) runOne(ctx context.Context, l *live, u broker.QueueUpdate, due *state.QueueSchedule, now int64) error {
	var s Schedule
	if err := json.Unmarshal([]byte(due.Spec), &s); err != nil {
		return err
	}
	s.Name = due.Name
	p, err := s.parse(l.ref().Partitions)
	if err != nil {
		return err
	}
	times, next := p.runs(s.Missed, time.UnixMicro(due.Next), time.UnixMicro(now))
	change := *due
	if change.Next = next.UnixMicro(); next.IsZero() {
		change.Next = never
	}
	u.Change = &state.QueueChange{Schedule: &change}
	if len(times) == 0 {
		return m.b.UpdateQueue(&u).Wait(ctx)[0].Err()
	}
	var recs []record.Record
	for _, at := range times {
		stamp := record.Header{Key: HeaderScheduled, Value: []byte(at.UTC().Format(time.RFC3339))}
		recs = append(recs, record.Record{
			Timestamp: now / 1000, Key: s.Key, Value: append([]byte{}, s.Value...), // not null
			Headers: append(slices.Clip(s.Headers), stamp),
		})
	}
	if err := m.append(ctx, &u, l.ref(), uint32(s.Priority), recs); err != nil {
		return err
	}
	m.met.sent.Add(len(recs))
	return nil
}

// runs returns the times between the first one and now that have a message, and the time after them.
func (p *plan) runs(missed string, first, now time.Time) (times []time.Time, next time.Time) {
	for next = first; !next.IsZero() && !next.After(now); next = p.after(next) {
		switch {
		case missed == RunAll:
			if times = append(times, next); len(times) == runsMax {
				return times, p.after(next)
			}
		case missed == Skip && now.Sub(next) > skipAfter:
		default:
			times = []time.Time{next} // the newest
		}
		if missed != RunAll && now.Sub(next) > 400*24*time.Hour {
			next = p.after(now.Add(-24 * time.Hour)) // years: not each of their minutes
			if next.After(now) {
				return times, next
			}
		}
	}
	return times, next
}
