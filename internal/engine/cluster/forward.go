package cluster

import (
	"slices"
	"time"
)

const (
	// forwardsMax bounds the attempts of one call.
	forwardsMax = 4
	// againAfter is the time after which a broker that refused a call is asked again.
	againAfter = 250 * time.Millisecond
	// movedGrace is the time that a broker that leads no more has to answer a call, and silentGrace that
	// of one that is not heard.
	movedGrace  = time.Second
	silentGrace = 100 * time.Millisecond
)

// Forwarding decides which broker answers one call that only a leader can answer, and whether it is
// sent again. The front end of the broker that got the call performs the decisions. A call is forwarded
// once: a broker that gets it from another one and does not lead refuses it.
//
//	Next ──▶ ServeCall ─────────────▶ Again ──▶ the answer, or Next
//	   ├───▶ ForwardCall ──(Moved)──▶ Again
//	   ├───▶ HoldCall ──▶ Next
//	   └───▶ RefuseCall
type Forwarding struct {
	Address   func(*Registration) string // of a run, in the protocol of the call; "": it has none
	Forwarded bool                       // another broker has sent the call here
	Reads     bool                       // the call has no effect
	Until     time.Time                  // the call waits for a leader until then; zero: it does not wait

	forwards int
	last     Run       // of the last attempt
	retry    time.Time // when last may be asked again
	hint     string    // address of the leader, by the broker that refused the last attempt
}

// Route is what the front end does with a call next.
type Route uint8

// The values of Route.
const (
	ServeCall   Route = iota + 1 // this broker answers it
	ForwardCall                  // another one does
	HoldCall                     // no leader is known: Next decides again soon
	RefuseCall                   // the answer is that this broker does not lead
)

// Next decides what happens to the call now. to is the run to forward it to. leads: this broker leads.
func (f *Forwarding) Next(v View, leads bool, now time.Time) (to Registration, route Route) {
	switch {
	case leads:
		return to, ServeCall
	case f.Forwarded:
		return to, RefuseCall
	}
	to, ok := f.hinted(v)
	if !ok {
		to, ok = v.Leader()
		ok = ok && f.Address(&to) != "" && to.Run != v.Self().Run && (to.Run != f.last || now.After(f.retry))
	}
	switch {
	case ok:
		f.forwards, f.last, f.retry = f.forwards+1, to.Run, now.Add(againAfter)
		return to, ForwardCall
	case now.After(f.Until):
		return to, RefuseCall
	}
	return to, HoldCall
}

// hinted returns the broker that the refusal of the last attempt named as the leader. Only a known
// broker gets the credentials of a client.
func (f *Forwarding) hinted(v View) (Registration, bool) {
	hint := f.hint
	f.hint = ""
	if hint == "" {
		return Registration{}, false
	}
	for _, m := range v.Members() {
		if f.Address(&m.Registration) == hint && !m.Self && m.Run != f.last {
			return m.Registration, true
		}
	}
	return Registration{}, false
}

// Hint notes the address of the leader that a broker has named when it refused the call.
func (f *Forwarding) Hint(leader string) { f.hint = leader }

// Outcome is how an attempt ended, as far as the broker knows that made it.
type Outcome uint8

// The values of Outcome.
const (
	CallAnswered Outcome = iota
	CallUnsent           // nothing of the call has left this broker
	CallRefused          // the broker does not lead or stops, and has done nothing
	CallUnknown          // it got no answer: the call may have an effect, also later
)

// Unanswered is the outcome of an attempt whose connection broke. sent: a part of the call may have
// left.
func Unanswered(sent bool) Outcome {
	if sent {
		return CallUnknown
	}
	return CallUnsent
}

// Again reports whether Next decides again after an attempt. whole: all of the call is still there.
func (f *Forwarding) Again(o Outcome, whole bool) bool {
	return (o == CallUnsent || o == CallRefused || o == CallUnknown && f.Reads) && whole && f.forwards < forwardsMax
}

// Moved reports whether a run that has not answered is known to lead no more. Its answer comes within
// grace, or the attempt has none (Unanswered).
func Moved(v View, run Run) (grace time.Duration, moved bool) {
	if now, ok := v.Leader(); !ok || now.Run == run {
		return 0, false
	}
	if slices.ContainsFunc(v.Members(), func(m Member) bool { return m.Run == run && m.Up }) {
		return movedGrace, true
	}
	return silentGrace, true
}
