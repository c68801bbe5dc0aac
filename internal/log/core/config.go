package core

// Duration is a time span in nanoseconds: time.Duration converts to it. The core knows no clock, so not that type either.
type Duration int64

const (
	millisecond Duration = 1e6
	second      Duration = 1e9
)

// Config fixes a core's numbers. The zero value of a field means the default named there.
type Config struct {
	Shard      uint32
	ReadOnly   bool   // follow, never write
	Advertised string // address put into our SEAL as a hint for clients of the one we fence

	Window        int      // K of rule R2: slots in flight; 4
	ReadAhead     int      // slots read ahead by a walk at most; 32
	SnapshotSlots int      // a snapshot is due after so many slots; 1000
	SnapshotSeals int      // ... or at once after a replay of so many seals; 16
	SnapshotBytes int64    // if > 0 (local stores): due when the bytes to replay exceed the last snapshot's, at least this; then SnapshotSlots is not used
	GarbageWait   Duration // while garbage is pending, a snapshot is due so long after the last one; 5 minutes
	IdleCheck     Duration // T of rule R11; 1 minute
	FollowPoll    Duration // how often a follower with readers looks for the next slot; 1 second
	RetryMin      Duration // first delay after "no verdict"; 50 ms
	RetryMax      Duration // 5 s
	RefusedRetry  Duration // delay while the store refuses; 5 s
	// RaiseAfter is how long a leader of a bucket at a lower format level waits before the first commit that a client makes
	// raises the bucket to state.LevelMax; 10 minutes. Negative: only a proposed FormatLevel record does.
	RaiseAfter Duration
	// StateMax bounds the memory of the state, in bytes as state.Memory counts them. 0 or less: no bound. What would make it larger is
	// rejected; what is in the log already is taken whatever its size.
	StateMax int64
	// Seen is what an earlier run knew of this log; nil: nothing. A candidate that finds less does not lead.
	Seen *Seen
}

func (c Config) withDefaults() Config {
	def(&c.Window, 4)
	def(&c.ReadAhead, 32)
	def(&c.SnapshotSlots, 1000)
	def(&c.SnapshotSeals, 16)
	def(&c.GarbageWait, 300*second)
	def(&c.IdleCheck, 60*second)
	def(&c.FollowPoll, second)
	def(&c.RetryMin, 50*millisecond)
	def(&c.RetryMax, 5*second)
	def(&c.RefusedRetry, 5*second)
	def(&c.RaiseAfter, 600*second)
	return c
}

func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}
