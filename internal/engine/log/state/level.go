package state

import (
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/engine/base/protobuf"
)

// A bucket has a format level. Each level adds kinds, fields or object versions that programs of
// lower levels do not know. Nothing of a level is written before a FormatLevel record has raised
// the bucket to it. FORMAT.md lists the levels.
const (
	// LevelFirst is the level of a bucket whose log holds no FormatLevel record.
	LevelFirst = 1
	// LevelRecovery adds FormatLevel, LossAccepted and TimeReset, and SEALs that skip epochs
	// (FlagRecovery).
	LevelRecovery = 2
	// LevelAccess adds AccessChange: principals and rules.
	LevelAccess = 3
	// LevelSecrets adds quotas to AccessChange, and encrypted values to definitions of triggers.
	LevelSecrets = 4
	// LevelJournal allows a store to keep the commit objects of an epoch in a journal
	// (objstore.Journaler). It adds no record and no field. Programs of lower levels do not find
	// such objects, so the record that raises the bucket lies in an earlier epoch (core.Core).
	LevelJournal = 5
	// LevelStandby adds LeaderRun and NextSlot: the run that sealed an epoch, and when the next slot
	// comes. Standbys use them; nothing on the log depends on them.
	LevelStandby = 6
	// LevelProducers adds ProducersForget, and owners to ProducerAppend: idempotent producers are
	// forgotten by time and by owner, and no longer beyond a number of all of them.
	LevelProducers = 7
	// LevelQueues adds QueueUpdate, and the setting queue of topics.
	LevelQueues = 8
	// LevelSigning adds the signing key to AccessChange, and the setting sqs of queues.
	LevelSigning = 9
	// LevelTransactions adds TransactionUpdate, and ProducerAppend of a transaction.
	LevelTransactions = 10
	// LevelMax is the highest level that this program reads and writes.
	LevelMax = LevelTransactions

	// Layout is the bucket layout that this program reads and writes, the "format" in meta/cluster.
	Layout = 1
)

// levelVersions are the first versions of Seb that read a level. A FormatLevel record carries its
// version, so that an older program can name the version that it needs.
var levelVersions = map[uint32]string{
	LevelRecovery: "0.1.0", LevelAccess: "0.1.0", LevelSecrets: "0.1.0", LevelJournal: "0.1.0",
	LevelStandby: "0.1.0", LevelProducers: "0.1.0", LevelQueues: "0.1.0", LevelSigning: "0.1.0", LevelTransactions: "0.1.0",
}

// RaiseTo is the record that raises a bucket to a level.
func RaiseTo(level uint32) Record {
	return Record{Kind: FormatLevel, Level: level, Name: levelVersions[level]}
}

// ErrNewer matches every *NewerError: a newer program wrote the bucket, and this one must not touch
// it.
var ErrNewer = errors.New("the bucket needs a newer Seb")

// NewerError: a bucket is at a format level that this program does not know. It is ErrNewer.
type NewerError struct {
	Level   uint32
	Version string // oldest version of Seb that reads the level, "" if the bucket does not name it
	// Layout, if not 0, is the unknown layout that meta/cluster names. Level is 0 then, because
	// nothing else of the bucket was read.
	Layout int
}

func (e *NewerError) Error() string {
	needs := "a newer Seb"
	if e.Version != "" {
		needs = "Seb " + e.Version + " or newer"
	}
	if e.Layout != 0 {
		return fmt.Sprintf("the bucket has layout %d, which needs %s; this program reads layout %d", e.Layout, needs, Layout)
	}
	return fmt.Sprintf("the bucket is at format level %d, which needs %s; this program reads levels up to %d", e.Level, needs, LevelMax)
}

// Is reports whether target is ErrNewer.
func (e *NewerError) Is(target error) bool { return target == ErrNewer }

// ErrLevel matches every *LevelError: the bucket's format level is too low for a proposal.
var ErrLevel = errors.New("the bucket's format level is too low")

// LevelError: a proposal needs a higher format level than the bucket has. It is ErrLevel.
type LevelError struct{ Needs, Has uint32 }

func (e *LevelError) Error() string {
	return fmt.Sprintf(`format level %d needed, but the bucket is at level %d: run "seb upgrade --finalize"`, e.Needs, e.Has)
}

// Is reports whether target is ErrLevel.
func (e *LevelError) Is(target error) bool { return target == ErrLevel }

// ErrLevelKnown: the bucket is already at the proposed format level or above it.
var ErrLevelKnown = errors.New("the bucket is already at this format level")

// checkLevel refuses a level that this program does not know.
func checkLevel(level uint32, version string) error {
	if level > LevelMax {
		return &NewerError{Level: level, Version: version}
	}
	return nil
}

// levelMessage is the message of the level in a snapshot. A newer program may add fields, so only
// the level decides whether this program can continue. For a level that it knows it accepts no other
// fields.
type levelMessage struct {
	level   uint32
	version string
}

func (l *levelMessage) fields(c *protobuf.Codec) {
	c.SkipUnknown()
	protobuf.Int(c, 1, "level", &l.level)
	if c.String(2, "version", &l.version); c.Done() {
		c.Fail(checkLevel(l.level, l.version))
		if c.Unknown() != 0 || l.level <= LevelFirst {
			c.Fail(fmt.Errorf("format level %d, field %d: %w", l.level, c.Unknown(), errWire))
		}
	}
}
