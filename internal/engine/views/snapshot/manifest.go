package snapshot

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// ErrDamaged: a snapshot's content is invalid. The file can be rebuilt from the log, or restored
// from an older snapshot.
var ErrDamaged = errors.New("damaged snapshot of a view")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}

// formatVersion is the version of FORMAT.md.
const formatVersion = 1

const (
	// pieceBytesMax bounds the part of the file in a piece. A reader needs it twice in memory.
	pieceBytesMax = 8 << 20
	// storedSlack is how much longer than that an incompressible piece may be.
	storedSlack = 64 << 10
	// manifestMax bounds a manifest: about 25 bytes for each piece.
	manifestMax = 4 << 20
)

// Note is the information that is stored with a copy.
type Note struct {
	// Time is the log time of the copy, µs.
	Time int64 `json:"time"`
	// Records is the number of records of the log that the file was made from.
	Records int64 `json:"records"`
}

// manifest describes the content of a snapshot.
type manifest struct {
	Format  int    `json:"format"`
	Cluster string `json:"cluster"`
	View    string `json:"view"`
	Schema  int    `json:"schema"`
	Epoch   uint32 `json:"epoch"`
	Slot    uint64 `json:"slot"`
	Nonce   string `json:"nonce"`
	ID      string `json:"id"`
	Note
	Size   int64  `json:"size"` // size of the file
	SHA256 string `json:"sha256"`
	// size of the file's part in each piece except the last
	PieceBytes int64    `json:"piece_bytes"`
	Pieces     []stored `json:"pieces"`
}

// stored is the object of a piece: its length and CRC-32C.
type stored [2]uint32

// encode returns the JSON, a line feed, the CRC-32C of both in eight hexadecimal digits, and a line
// feed.
func (m *manifest) encode() ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	b = append(b, '\n')
	if b = fmt.Appendf(b, "%08x\n", record.CRC32C(b)); len(b) > manifestMax {
		return nil, fmt.Errorf("manifest has %d bytes, at most %d are allowed", len(b), manifestMax)
	}
	return b, nil
}

// decode decodes and checks a manifest without reading the pieces. n is the object's name.
func decode(b []byte, n *Name) (m *manifest, err error) {
	const tail = 9
	if len(b) < tail+1 || len(b) > manifestMax {
		return nil, damaged("manifest has %d bytes", len(b))
	}
	text, sum := b[:len(b)-tail], b[len(b)-tail:]
	if crc, err := strconv.ParseUint(string(bytes.TrimSuffix(sum, []byte("\n"))), 16, 32); err != nil || uint32(crc) != record.CRC32C(text) {
		return nil, damaged("manifest: wrong checksum")
	}
	m = &manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, damaged("manifest: %v", err)
	}
	hash, err := hex.DecodeString(m.SHA256)
	switch {
	case m.Format != formatVersion:
		return nil, damaged("manifest: format %d, want %d", m.Format, formatVersion)
	case m.View != n.View || m.Epoch != n.Epoch || m.Slot != n.Slot || m.Records < 0 || uint64(m.Records) != n.Records ||
		m.Nonce != n.Nonce.String() || m.ID != n.ID.String():
		return nil, damaged("manifest: belongs to another snapshot")
	case err != nil || len(hash) != 32:
		return nil, damaged("manifest: invalid sha256")
	case m.PieceBytes < 1 || m.PieceBytes > pieceBytesMax:
		return nil, damaged("manifest: pieces of %d bytes, want 1 to %d", m.PieceBytes, pieceBytesMax)
	case len(m.Pieces) < 1 || len(m.Pieces) > piecesMax || len(m.Pieces) != n.Piece:
		return nil, damaged("manifest: %d pieces, want %d as in its name", len(m.Pieces), n.Piece)
	case m.Size < 1 || m.Size > int64(len(m.Pieces))*m.PieceBytes || m.Size <= int64(len(m.Pieces)-1)*m.PieceBytes:
		return nil, damaged("manifest: file of %d bytes does not have %d pieces of %d", m.Size, len(m.Pieces), m.PieceBytes)
	}
	for i, p := range m.Pieces {
		if p[0] < 1 || p[0] > pieceBytesMax+storedSlack {
			return nil, damaged("manifest: piece %d has %d bytes", i, p[0])
		}
	}
	return m, nil
}

// plain is the size of the file's part in a piece.
func (m *manifest) plain(i int) int64 { return min(m.PieceBytes, m.Size-int64(i)*m.PieceBytes) }

// stored is the total length of all pieces.
func (m *manifest) stored() (n int64) {
	for _, p := range m.Pieces {
		n += int64(p[0])
	}
	return n
}

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
