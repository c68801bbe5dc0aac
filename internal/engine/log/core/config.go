package core

import "github.com/sebbroker/seb/internal/engine/log/state"

// Duration is a time span in nanoseconds; time.Duration converts to it. The core has no clock, so
// it does not import package time.
type Duration int64

const (
	millisecond Duration = 1e6
	second      Duration = 1e9
)

// ProducerExpiration is the default of Config.ProducerExpiration.
const ProducerExpiration = 24 * 3600 * second

// Config holds a core's parameters. A zero value means the default that the comment names.
type Config struct {
	Shard      uint32
	ReadOnly   bool      // follow, never write
	Standby    bool      // follow, until Stand makes another core
	Advertised string    // address in our SEAL: a hint for clients of the leader that it fences
	Run        state.Run // in our SEAL: identifies this broker to standbys; zero: none

	Window        int // K of rule R2: maximum of slots in flight; 4
	ReadAhead     int // maximum of slots that a walk reads ahead; 32
	SnapshotSlots int // slots after which a snapshot is due; 1000
	SnapshotSeals int // seals in a replay after which a snapshot is due at once; 16
	// SnapshotBytes is the least number of bytes that a start would read after which a snapshot is due,
	// unless it is small beside the newest snapshot; 64 MiB.
	SnapshotBytes int64
	// Local: the store is on this machine. A start then reads only the metadata of a slot, however many
	// there are, and reads as fast as it writes, so that SnapshotSlots does not count.
	Local       bool
	GarbageWait Duration // time between snapshots while garbage is pending; 5 minutes
	IdleCheck   Duration // T of rule R11; 1 minute
	ScrubEvery  Duration // time between comparisons of the bucket with the state (rule R16); 1 hour
	// interval at which a follower with readers looks for the next slot; 1 second
	FollowPoll   Duration
	RetryMin     Duration // first delay after "no verdict"; 50 ms
	RetryMax     Duration // 5 s
	RefusedRetry Duration // delay while the store refuses; 5 s
	// RaiseAfter is how long a leader of a bucket at a lower format level waits before a client's
	// commit raises the bucket to state.LevelMax; 10 minutes. If negative, only a proposed
	// FormatLevel record raises it.
	RaiseAfter Duration
	// StateMax bounds the memory of the state, in bytes as state.Memory counts them; 0 or less: no
	// bound. Proposals that would exceed it are rejected. Objects that are already in the log are
	// applied whatever their size.
	StateMax int64
	// ProducerExpiration is how long the state remembers an idempotent producer that appends nothing to a
	// partition; 24 hours.
	ProducerExpiration Duration
	// Journals: the store can keep the commit objects of an epoch in a journal
	// (objstore.Journaler).
	Journals bool
	// Seen are the positions that earlier runs knew. A candidate that finds less in the bucket does not
	// lead (Older).
	Seen []Seen
}

func (c Config) withDefaults() Config {
	def(&c.Window, 4)
	def(&c.ReadAhead, 32)
	def(&c.SnapshotSlots, 1000)
	def(&c.SnapshotSeals, 16)
	def(&c.SnapshotBytes, 64<<20)
	def(&c.GarbageWait, 300*second)
	def(&c.IdleCheck, 60*second)
	def(&c.ScrubEvery, 3600*second)
	def(&c.FollowPoll, second)
	def(&c.RetryMin, 50*millisecond)
	def(&c.RetryMax, 5*second)
	def(&c.RefusedRetry, 5*second)
	def(&c.RaiseAfter, 600*second)
	def(&c.ProducerExpiration, ProducerExpiration)
	return c
}

func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}
