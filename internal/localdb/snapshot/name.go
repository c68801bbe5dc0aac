package snapshot

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

// LogPosition is a position of the log. The nonce of its epoch distinguishes it from the same
// position on a lost branch.
type LogPosition struct {
	state.Position
	Nonce record.ID
}

// Name is the name of an object: a piece of a snapshot, or its manifest (FORMAT.md).
type Name struct {
	View string // lower-case letters
	LogPosition
	Records  uint64    // read for the file; at one position more records are newer
	ID       record.ID // random
	Piece    int       // number of the piece, from 0; of a manifest the number of pieces
	Manifest bool
}

const (
	epochDigits = 10
	slotDigits  = 20
	nonceDigits = 2 * len(record.ID{})
	pieceDigits = 6
	// piecesMax is the maximum number of pieces of a snapshot.
	piecesMax = 99_999
)

// Prefix is the prefix of the names of all snapshots of views of a shard.
func Prefix(shard uint32) string { return fmt.Sprintf("s%04d/view/", shard) }

// prefix is the prefix of the names of all snapshots of a view.
func prefix(shard uint32, view string) string { return Prefix(shard) + view + "/" }

// snapshot is the prefix of the names of all objects of a snapshot; the newest snapshot sorts
// first.
func (n *Name) snapshot(shard uint32) string {
	return fmt.Sprintf("%s%0*d-%0*d-%0*d-%s-%s-", prefix(shard, n.View), epochDigits, math.MaxUint32-n.Epoch, slotDigits,
		math.MaxUint64-n.Slot, slotDigits, math.MaxUint64-n.Records, hex.EncodeToString(n.Nonce[:]), hex.EncodeToString(n.ID[:]))
}

// Key is the object's name in the bucket.
func (n *Name) Key(shard uint32) string {
	kind := ""
	if n.Manifest {
		kind = "m"
	}
	return fmt.Sprintf("%s%s%0*d", n.snapshot(shard), kind, pieceDigits, n.Piece)
}

// ParseName parses a name; ok is false for any name that is not a result of Key.
func ParseName(shard uint32, key string) (n Name, ok bool) {
	rest, found := strings.CutPrefix(key, Prefix(shard))
	view, rest, slash := strings.Cut(rest, "/")
	f := strings.Split(rest, "-")
	if !found || !slash || len(f) != 6 || !validView(view) {
		return Name{}, false
	}
	epoch, err1 := strconv.ParseUint(f[0], 10, 32)
	slot, err2 := strconv.ParseUint(f[1], 10, 64)
	records, err3 := strconv.ParseUint(f[2], 10, 64)
	nonce, err4 := record.ParseID(f[3])
	id, err5 := record.ParseID(f[4])
	number, manifest := strings.CutPrefix(f[5], "m")
	piece, err6 := strconv.ParseUint(number, 10, 31)
	for _, err := range []error{err1, err2, err3, err4, err5, err6} {
		if err != nil {
			return Name{}, false
		}
	}
	n = Name{View: view, Records: math.MaxUint64 - records, ID: id, Piece: int(piece), Manifest: manifest}
	n.LogPosition = LogPosition{state.Position{Epoch: math.MaxUint32 - uint32(epoch), Slot: math.MaxUint64 - slot}, nonce}
	return n, piece <= piecesMax && n.Key(shard) == key
}

func validView(s string) bool {
	for _, c := range s {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return s != ""
}

// older reports whether a snapshot has an earlier state than another.
func (n *Name) older(than *Name) bool {
	if n.Position == than.Position {
		return n.Records < than.Records
	}
	return n.Less(than.Position)
}
