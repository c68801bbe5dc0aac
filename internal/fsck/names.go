package fsck

import (
	"math"
	"strconv"
	"strings"

	"github.com/sebbroker/seb/internal/cluster/link"
	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

const (
	probePrefix = "probe/"
	metaPrefix  = "meta/"
)

// slotName holds the parts of a commit object's name.
type slotName struct {
	epoch uint32
	nonce record.ID
	slot  uint64
}

func (n slotName) pos() state.Position { return state.Position{Epoch: n.epoch, Slot: n.slot} }

// parseSlot parses a commit object's name; ok is false for any other name.
func parseSlot(shard uint32, key string) (n slotName, ok bool) {
	n.epoch, n.nonce, n.slot, ok = state.ParseSlotKey(shard, key)
	return n, ok
}

// parsePack parses a pack's name, with its number as the slot; ok is false for any other name.
func parsePack(shard uint32, key string) (n slotName, ok bool) {
	n.epoch, n.nonce, n.slot, ok = state.ParsePackKey(shard, key)
	return n, ok
}

// ref identifies a data object: a slot or a pack.
type ref struct {
	state.Position // for a pack its epoch and number
	pack           bool
}

func refOf(r *state.Range) ref {
	return ref{state.Position{Epoch: r.Epoch, Slot: r.Slot}, r.Pack}
}

// snapshotObject holds a snapshot's key and the parts of its name.
type snapshotObject struct {
	key   string
	pos   state.Position
	nonce record.ID
	size  int64 // of a listed object
}

// isRegistration reports whether an object is the registration of a broker.
func isRegistration(key string) bool {
	_, ok := link.ParseKey(key)
	return ok
}

// parseSnapshot parses a snapshot's name; ok is false for any other name.
func parseSnapshot(shard uint32, key string) (s snapshotObject, ok bool) {
	rest, found := strings.CutPrefix(key, core.SnapPrefix(shard))
	f := strings.SplitN(rest, "-", 3)
	if !found || len(f) != 3 || len(f[0]) != 10 || len(f[1]) != 20 {
		return s, false
	}
	epoch, err1 := strconv.ParseUint(f[0], 10, 32)
	slot, err2 := strconv.ParseUint(f[1], 10, 64)
	nonce, err3 := record.ParseID(f[2])
	if err1 != nil || err2 != nil || err3 != nil {
		return s, false
	}
	return snapshotObject{key: key, pos: state.Position{Epoch: math.MaxUint32 - uint32(epoch), Slot: math.MaxUint64 - slot}, nonce: nonce}, true
}
