package pack

// Step is what is to be done next for a pack.
type Step uint8

// The steps.
const (
	Put     Step = iota + 1 // PUT the pack: the same bytes at every attempt (rule R1)
	Install                 // propose the record that installs it
	Done                    // nothing: installed, or its fate is that of the slot its record is in
	Abandon                 // nothing: it stays behind, as garbage that a later epoch collects (rule R7)
)

// Result is what came of a step.
type Result uint8

// The results.
const (
	Built     Result = iota + 1 // the pack is encoded, verified against its sources
	Stored                      // the store has it: stored, or found there, which only an earlier attempt of ours can be
	NoVerdict                   // the PUT has no verdict
	Acked                       // the installing record is committed
	Rejected                    // the record is in no slot and never will be
	Unknown                     // the record was sent and has no verdict
)

// Next is rule R8: a pack is stored, known durable, then installed. Once the record is frozen the pack's fate is the
// slot's, and nobody gives it up.
func Next(r Result) Step {
	switch r {
	case Built, NoVerdict:
		return Put
	case Stored:
		return Install
	case Rejected:
		return Abandon
	}
	return Done
}
