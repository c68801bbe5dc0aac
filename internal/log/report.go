package log

import (
	"context"
	"time"

	"github.com/sebbroker/seb/internal/cluster"
	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
)

// Report returns what the goroutine that owns the log knows. An answer shows that this goroutine
// runs; it makes no request. Errors: the error that ended the log; ErrClosed; ctx's cause.
func (l *Log) Report(ctx context.Context) (cluster.Report, error) {
	answer := make(chan reported, 1)
	if !l.in.put(message{report: answer}) {
		return cluster.Report{}, ErrClosed
	}
	select {
	case r := <-answer:
		return r.Report, r.err
	case <-l.ended:
		return cluster.Report{}, ErrClosed
	case <-ctx.Done():
		return cluster.Report{}, context.Cause(ctx)
	}
}

// reported is the answer to a call of Report.
type reported struct {
	cluster.Report
	err error
}

// report answers a call of Report.
func (o *owner) report() reported {
	if r := o.core.Role(); r == core.RoleStopped || r == core.RoleFenced && !o.opt.Standby {
		return reported{err: o.core.Err()}
	}
	return reported{Report: ReportOf(o.core, o.now(), o.verdict.Load(), o.at)}
}

// ReportOf returns the report of a core. now and verdict, when the store last answered, are on the
// clock of its steps; at converts times on that clock.
func ReportOf(c *core.Core, now, verdict int64, at func(int64) time.Time) cluster.Report {
	known := c.Report()
	r := cluster.Report{
		Leads: known.Leads, Stands: known.Stands, Loaded: known.Loaded, SealerURL: known.Hint,
		Parked: c.Parked(), Life: at(known.Life), InFlight: known.InFlight, Looked: at(known.Looked), Verdict: at(verdict),
	}
	if known.Oldest != 0 {
		r.Oldest = time.Duration(now - known.Oldest)
	}
	if s := c.State(); s != nil {
		r.Pos, r.Nonce, r.PrevCRC, r.Level = s.Pos, s.Nonce, s.PrevCRC, s.Level
		r.Ends = s.Promise == state.Ends
		r.Sealer, r.Promise = s.Sealer, time.Duration(s.Promise)*time.Millisecond
		// At this level each broker names its run. A recovery begins an epoch without a leader.
		r.Foreign = s.Sealer.IsZero() && s.Level >= state.LevelStandby && s.Pos.Epoch > 0 && !s.LossAccepted(s.Pos.Epoch-1)
		if s.AppendTime != 0 {
			r.Committed = time.UnixMicro(s.AppendTime)
		}
	}
	return r
}

// at is the time of a value of now; zero for 0.
func (l *Log) at(now int64) time.Time {
	if now == 0 {
		return time.Time{}
	}
	return l.start.Add(time.Duration(now) - firstNow)
}
