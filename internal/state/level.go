package state

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// A bucket has a format level. Each level adds kinds, fields or object versions that programs of the levels below do not
// know; nothing of a level is written before a FormatLevel record has raised the bucket to it. FORMAT.md lists the levels.
const (
	// LevelFirst is the level of a bucket whose log holds no FormatLevel record.
	LevelFirst = 1
	// LevelRecovery adds FormatLevel, LossAccepted and TimeReset, and SEALs that skip epochs (FlagRecovery).
	LevelRecovery = 2
	// LevelMax is the highest level that this program reads and writes.
	LevelMax = LevelRecovery
)

// levelVersions are the first versions of Seb that read a level. A FormatLevel record carries the version, so that an older
// program can name what it needs.
var levelVersions = map[uint32]string{LevelRecovery: "0.1.0"}

// RaiseTo is the record that raises a bucket to a level.
func RaiseTo(level uint32) Record {
	return Record{Kind: FormatLevel, Level: level, Name: levelVersions[level]}
}

// ErrNewer is what every *NewerError is: a newer program wrote the bucket, and this one must not touch it.
var ErrNewer = errors.New("the bucket needs a newer Seb")

// NewerError says that a bucket is at a format level that this program does not know. It is ErrNewer.
type NewerError struct {
	Level   uint32
	Version string // the oldest Seb that reads the level
}

func (e *NewerError) Error() string {
	needs := "a newer Seb"
	if e.Version != "" {
		needs = "Seb " + e.Version + " or newer"
	}
	return fmt.Sprintf("the bucket is at format level %d, which needs %s; this program reads levels up to %d", e.Level, needs, LevelMax)
}

// Is makes it ErrNewer.
func (e *NewerError) Is(target error) bool { return target == ErrNewer }

// ErrLevel is what every *LevelError is: the bucket's format level is too low for what was proposed.
var ErrLevel = errors.New("the bucket's format level is too low")

// LevelError says that something needs a higher format level than the bucket has. It is ErrLevel.
type LevelError struct{ Needs, Has uint32 }

func (e *LevelError) Error() string {
	return fmt.Sprintf(`needs format level %d, this bucket is at %d: run "seb upgrade --finalize"`, e.Needs, e.Has)
}

// Is makes it ErrLevel.
func (e *LevelError) Is(target error) bool { return target == ErrLevel }

// ErrLevelKnown says that the bucket is at the proposed format level already, or above it.
var ErrLevelKnown = errors.New("the bucket is at this format level already")

// checkLevel refuses a level that this program does not know.
func checkLevel(level uint32, version string) error {
	if level > LevelMax {
		return &NewerError{Level: level, Version: version}
	}
	return nil
}

// encodeLevel is the message of a snapshot that names its level: 1 level, 2 version.
func encodeLevel(level uint32) []byte {
	return appendBytes(appendVarint(nil, 1, uint64(level)), 2, []byte(levelVersions[level]))
}

func decodeLevel(b []byte) (level uint32, err error) {
	version := ""
	// A newer program may add fields: the level alone decides whether this one may go on.
	err = fields(b, schema{last: 1 << 20, varints: 1 << 1}, func(num protowire.Number, v uint64, m []byte) (err error) {
		switch num {
		case 1:
			level, err = uint32Of(v)
		case 2:
			version = string(m)
		}
		return err
	})
	if err == nil {
		err = checkLevel(level, version)
	}
	return level, err
}
