package state

import (
	"time"

	"github.com/sebbroker/seb/record"
)

// Report is what the goroutine that owns a log knows. Its answer shows that it runs.
type Report struct {
	Leads     bool
	Stands    bool // an attempt to lead is under way
	Loaded    bool
	Pos       Position  // committed or applied
	Nonce     record.ID // of the epoch of Pos
	PrevCRC   uint32    // checksum of the head before Pos
	Sealer    Run       // that sealed the newest epoch; zero: an older program, or an old format level
	Foreign   bool      // a program that is no broker of the bucket sealed it, such as one that embeds Seb
	SealerURL string
	Promise   time.Duration // the newest slot says that the next one comes within this time; 0: no promise
	Ends      bool          // the newest slot says that its leader has ended
	Life      time.Time     // when the newest slot or SEAL was committed or found, by the monotonic clock
	InFlight  int           // slots without a verdict
	Oldest    time.Duration // age of the oldest of them
	Verdict   time.Time     // when the store last answered anything, by the monotonic clock
	Looked    time.Time     // start of the newest request that showed this leader that it is not fenced
	Parked    bool
	Level     uint32
	Committed time.Time // append time of the newest slot
}
