package pack

// Step is the next step for a pack.
type Step uint8

// The steps.
const (
	Put     Step = iota + 1 // PUT the pack: the same bytes at every attempt (rule R1)
	Install                 // propose the record that installs it
	Done                    // no further step: installed, or its slot decides
	Abandon                 // no further step: garbage that a later epoch collects (R7)
)

// Result is the result of a step.
type Result uint8

// The results.
const (
	Built     Result = iota + 1 // the pack is encoded and verified against its sources
	Stored                      // the store has it: stored now, or by an earlier attempt of ours
	NoVerdict                   // the PUT has no verdict
	Acked                       // the installing record is committed
	Rejected                    // the record is in no slot and never will be
	Unknown                     // the record was sent and has no verdict
)

// Next is rule R8: a pack is stored, known durable, then installed. Once the record is frozen its
// slot decides about the pack, so the pack is not abandoned even if the outcome is unknown.
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
