package store

import "github.com/sebbroker/seb/internal/trigger/rule"

// Follow applies a later record, with its append time (ms), to a recorded firing. It returns false
// if the record changes nothing.
func (x *Firing) Follow(rec *rule.Record, at int64) bool {
	same := rec.Retraction == x.Retraction
	// heard: the message was in flight when the firing was retracted.
	heard := x.State == rule.Retracted && !rec.Retraction
	switch rec.Kind {
	case rule.Retract:
		return x.applyRetract(rec, at)
	case rule.Attempt:
		if heard {
			x.retract(at)
			return true
		}
		if x.State != rule.Pending || !same {
			return false
		}
		x.Tries++
		x.NextTry, x.Outcome = rec.NextTry, rec.Outcome
	case rule.Defer:
		if x.State != rule.Pending || !same {
			return false
		}
		x.NextTry = rec.NextTry
	case rule.Done:
		if heard && rec.State == rule.Delivered {
			x.retract(at)
			return true
		}
		if x.State != rule.Pending || !same {
			return false
		}
		x.Tries++
		x.State, x.NextTry, x.Outcome = rec.State, 0, rec.Outcome
	case rule.Resend:
		x.State, x.Tries, x.NextTry = rule.Pending, 0, at
	}
	return true
}

// applyRetract applies the record that the expression is no longer true.
func (x *Firing) applyRetract(rec *rule.Record, at int64) bool {
	if x.RetractedAt != 0 {
		return false
	}
	x.RetractedAt, x.RetractedCause = rec.At, rec.Cause
	switch {
	case x.State == rule.Pending && x.Tries == 0:
		x.State, x.NextTry = rule.Retracted, 0
	case x.State == rule.Pending, x.State == rule.Delivered:
		x.retract(at)
	}
	return true
}

// retract starts the delivery of the retraction.
func (x *Firing) retract(at int64) {
	x.State, x.Retraction, x.Tries, x.NextTry = rule.Pending, true, 0, at
}
