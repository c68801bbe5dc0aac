package state

import (
	"fmt"

	"github.com/sebbroker/seb/record"
)

// Run names one life of one broker process.
type Run struct {
	Node record.ID // of the data folder, kept there
	ID   record.ID // drawn at each start
}

func (r Run) String() string { return fmt.Sprintf("%s/%s", r.Node, r.ID) }

// IsZero reports whether r names no run.
func (r Run) IsZero() bool { return r == Run{} }

// encode returns the node and the ID of the run.
func (r *Run) encode() []byte { return append(r.Node[:len(r.Node):len(r.Node)], r.ID[:]...) }

// decodeRun decodes the output of encode. A zero run is malformed.
func decodeRun(r *Run, b []byte) error {
	n := len(r.Node)
	if len(b) != n+len(r.ID) {
		return fmt.Errorf("run of %d bytes: %w", len(b), errWire)
	}
	copy(r.Node[:], b[:n])
	if copy(r.ID[:], b[n:]); r.IsZero() {
		return fmt.Errorf("run without an id: %w", errWire)
	}
	return nil
}

// Ends is the Within of the last slot of a leader that ends: no slot follows.
const Ends = 1

// promise sets what the newest slot says about the next one: a slot without a promise ends the
// promise of the slot before it.
func (s *State) promise(recs []Record) {
	s.Promise = 0
	for i := range recs {
		if recs[i].Kind == NextSlot {
			s.Promise = recs[i].Within
		}
	}
}

// checkStandby checks that a snapshot below LevelStandby has no field of that level.
func (s *State) checkStandby() error {
	if s.Level < LevelStandby && (s.Promise != 0 || !s.Sealer.IsZero()) {
		return fmt.Errorf("promise or sealer at format level %d: %w", s.Level, errWire)
	}
	return nil
}
