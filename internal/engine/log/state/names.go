package state

import (
	"encoding/hex"
	"math"
	"strconv"
	"strings"

	"github.com/sebbroker/seb/record"
)

// Names are relative to the bucket's root. Numbers are zero-padded so that names sort. Names are
// built and parsed without fmt, because a start or a collection handles many of them.
const (
	epochDigits = 10
	slotDigits  = 20
	nonceDigits = 2 * len(record.ID{})
)

// WALPrefix is the prefix of the names of all commit objects of a shard.
func WALPrefix(shard uint32) string { return string(appendFolder(nil, shard, "/wal/")) }

// SlotPrefix is the prefix of the names of all slots of an epoch.
func SlotPrefix(shard, epoch uint32, nonce record.ID) string {
	var buf [96]byte
	return string(appendSlotPrefix(buf[:0], shard, epoch, nonce))
}

// SlotFolder is the folder of all slots of an epoch.
func SlotFolder(shard, epoch uint32, nonce record.ID) string {
	return strings.TrimSuffix(SlotPrefix(shard, epoch, nonce), "/")
}

// EpochPrefix sorts before the names of all slots of an epoch, whatever its nonce, and after those
// of earlier epochs.
func EpochPrefix(shard, epoch uint32) string {
	return string(appendPadded(appendFolder(nil, shard, "/wal/"), uint64(epoch), epochDigits))
}

// SlotKey is the name of the commit object in a slot.
func SlotKey(shard, epoch uint32, nonce record.ID, slot uint64) string {
	var buf [96]byte
	return string(appendPadded(appendSlotPrefix(buf[:0], shard, epoch, nonce), slot, slotDigits))
}

// RecoveryKey is the name of a recovery's SEAL if the slot holds an object that cannot be read.
func RecoveryKey(shard, epoch uint32, nonce record.ID, slot uint64) string {
	return SlotKey(shard, epoch, nonce, slot) + RecoverySuffix
}

// RecoverySuffix is the suffix of such a SEAL's name.
const RecoverySuffix = ".recovery"

// ParseSlotKey parses a commit object's name; ok is false for any other name.
func ParseSlotKey(shard uint32, key string) (epoch uint32, nonce record.ID, slot uint64, ok bool) {
	var buf [16]byte
	return parseName(appendFolder(buf[:0], shard, "/wal/"), '/', key)
}

// PackPrefix is the prefix of the names of all packs of a shard.
func PackPrefix(shard uint32) string { return string(appendFolder(nil, shard, "/pack/")) }

// PackEpochPrefix sorts before the names of all packs of an epoch, whatever its nonce, and after
// those of earlier epochs.
func PackEpochPrefix(shard, epoch uint32) string {
	return string(appendPadded(appendFolder(nil, shard, "/pack/"), uint64(epoch), epochDigits))
}

// ViewPrefix is the prefix of the names of all copies of views of a shard.
func ViewPrefix(shard uint32) string { return string(appendFolder(nil, shard, "/view/")) }

// ParseViewPosition returns the log position of a copy of a view from the name of one of its
// objects.
func ParseViewPosition(shard uint32, key string) (Position, bool) {
	rest, found := strings.CutPrefix(key, ViewPrefix(shard))
	_, rest, slash := strings.Cut(rest, "/")
	if !found || !slash || len(rest) <= epochDigits+1+slotDigits || rest[epochDigits] != '-' {
		return Position{}, false
	}
	epoch, err1 := strconv.ParseUint(rest[:epochDigits], 10, 32)
	slot, err2 := strconv.ParseUint(rest[epochDigits+1:][:slotDigits], 10, 64)
	return Position{Epoch: math.MaxUint32 - uint32(epoch), Slot: math.MaxUint64 - slot}, err1 == nil && err2 == nil
}

// PackKey is the name of a pack.
func PackKey(shard, epoch uint32, nonce record.ID, id uint64) string {
	var buf [96]byte
	b := appendEpoch(appendFolder(buf[:0], shard, "/pack/"), epoch, nonce)
	return string(appendPadded(append(b, '-'), id, slotDigits))
}

// ParsePackKey parses a pack's name; ok is false for any other name.
func ParsePackKey(shard uint32, key string) (epoch uint32, nonce record.ID, id uint64, ok bool) {
	var buf [16]byte
	return parseName(appendFolder(buf[:0], shard, "/pack/"), '-', key)
}

// SnapPrefix is the prefix of the names of all snapshots of a shard.
func SnapPrefix(shard uint32) string { return string(appendFolder(nil, shard, "/snap/")) }

// SnapKey is the name of the snapshot at a position. Numbers are subtracted from the largest, so
// the newest sorts first.
func SnapKey(shard uint32, pos Position, nonce record.ID) string {
	var buf [96]byte
	b := appendPadded(appendFolder(buf[:0], shard, "/snap/"), uint64(math.MaxUint32-pos.Epoch), epochDigits)
	b = appendPadded(append(b, '-'), math.MaxUint64-pos.Slot, slotDigits)
	return string(hex.AppendEncode(append(b, '-'), nonce[:]))
}

// ParseSnapKey parses a snapshot's name; ok is false for any other name.
func ParseSnapKey(shard uint32, key string) (pos Position, nonce record.ID, ok bool) {
	var buf [16]byte
	rest, found := strings.CutPrefix(key, string(appendFolder(buf[:0], shard, "/snap/")))
	if !found || len(rest) != epochDigits+1+slotDigits+1+nonceDigits || rest[epochDigits] != '-' || rest[epochDigits+1+slotDigits] != '-' {
		return Position{}, record.ID{}, false
	}
	epoch, err1 := strconv.ParseUint(rest[:epochDigits], 10, 32)
	slot, err2 := strconv.ParseUint(rest[epochDigits+1:][:slotDigits], 10, 64)
	nonce, err3 := record.ParseID(rest[len(rest)-nonceDigits:])
	return Position{Epoch: math.MaxUint32 - uint32(epoch), Slot: math.MaxUint64 - slot}, nonce, err1 == nil && err2 == nil && err3 == nil
}

func appendFolder(b []byte, shard uint32, folder string) []byte {
	return append(appendPadded(append(b, 's'), uint64(shard), 4), folder...)
}

func appendSlotPrefix(b []byte, shard, epoch uint32, nonce record.ID) []byte {
	return append(appendEpoch(appendFolder(b, shard, "/wal/"), epoch, nonce), '/')
}

func appendEpoch(b []byte, epoch uint32, nonce record.ID) []byte {
	return hex.AppendEncode(append(appendPadded(b, uint64(epoch), epochDigits), '-'), nonce[:])
}

// appendPadded appends n, zero-padded to digits.
func appendPadded(b []byte, n uint64, digits int) []byte {
	var buf [20]byte
	d := strconv.AppendUint(buf[:0], n, 10)
	for range digits - len(d) {
		b = append(b, '0')
	}
	return append(b, d...)
}

// parseName reads prefix, epoch, '-', nonce, the separator and a number.
func parseName(prefix []byte, separator byte, key string) (epoch uint32, nonce record.ID, number uint64, ok bool) {
	rest, found := strings.CutPrefix(key, string(prefix))
	if !found || len(rest) != epochDigits+1+nonceDigits+1+slotDigits || rest[epochDigits] != '-' || rest[epochDigits+1+nonceDigits] != separator {
		return 0, record.ID{}, 0, false
	}
	e, err1 := strconv.ParseUint(rest[:epochDigits], 10, 32)
	nonce, err2 := record.ParseID(rest[epochDigits+1:][:nonceDigits])
	number, err3 := strconv.ParseUint(rest[len(rest)-slotDigits:], 10, 64)
	return uint32(e), nonce, number, err1 == nil && err2 == nil && err3 == nil
}
