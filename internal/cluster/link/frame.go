package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/sebbroker/seb/internal/cluster"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	// SlotMax bounds the bytes of a slot that a link carries. Of a longer one it carries the position.
	SlotMax = 64 << 10

	earlyMax = 4 << 10 // bytes of a frame before its sender is authenticated
	frameMax = SlotMax + 1<<10
	prefixed = 4 // bytes of a frame's length
)

// kind is a kind of frame. Receivers skip unknown kinds.
type kind uint8

const (
	kindHello kind = iota + 1
	kindRefused
	kindAlive // the sender has nothing to say
	kindSlot
	kindNotice // a slot that is not sent

	kindMessage kind = 16 // and a cluster.MessageKind
)

// hello shows who an end of a link is. Its proofs are empty until the receiver is known.
type hello struct {
	from, to cluster.Run
	root     []byte // proof of the root key
	secrets  []byte // proof of the secrets key, if there is one
	reason   string // of a refusal
}

// The fields of a hello and of a refusal, see FORMAT.md.
const (
	helloFromNode = iota + 1
	helloFromRun
	helloToNode
	helloToRun
	helloRoot
	helloSecrets
	helloReason
)

// begin appends the head of a frame, and end sets its length.
func begin(b []byte, k kind) []byte { return append(b, 0, 0, 0, 0, byte(k)) }

func end(b []byte, start int) []byte {
	binary.LittleEndian.PutUint32(b[start:], uint32(len(b)-start-prefixed))
	return b
}

func appendHello(b []byte, k kind, h *hello) []byte {
	start := len(b)
	b = begin(b, k)
	b = appendID(b, helloFromNode, h.from.Node)
	b = appendID(b, helloFromRun, h.from.ID)
	b = appendID(b, helloToNode, h.to.Node)
	b = appendID(b, helloToRun, h.to.ID)
	if len(h.root) > 0 {
		b = appendBytes(b, helloRoot, h.root)
	}
	if len(h.secrets) > 0 {
		b = appendBytes(b, helloSecrets, h.secrets)
	}
	return end(appendText(b, helloReason, h.reason), start)
}

func decodeHello(body []byte) (h hello, err error) {
	err = fields(body, func(f field) (err error) {
		switch f.number {
		case helloFromNode:
			h.from.Node, err = f.id("node")
		case helloFromRun:
			h.from.ID, err = f.id("run")
		case helloToNode:
			h.to.Node, err = f.id("receiver's node")
		case helloToRun:
			h.to.ID, err = f.id("receiver's run")
		case helloRoot:
			h.root, err = f.bytes, f.want("proof", protowire.BytesType)
		case helloSecrets:
			h.secrets, err = f.bytes, f.want("proof", protowire.BytesType)
		case helloReason:
			h.reason, err = f.text("reason")
		}
		return err
	})
	return h, err
}

// body has the fields of all messages, slots and notices.
type body struct {
	sent, flags, committed, hand, slot uint64
	epoch, posEpoch, level, crc        uint32
	nonce, posNonce                    record.ID
	prefix                             []byte
}

// The fields of a body, see FORMAT.md.
const (
	bodySent = iota + 1
	bodyFlags
	bodyEpoch
	bodyNonce
	bodyPosEpoch
	bodySlot
	bodyPosNonce
	bodyLevel
	bodyCommitted
	bodyHand
	bodyCRC
	bodyPrefix
)

// The bits of a body's flags.
const (
	flagLeads = 1 << iota
	flagStands
	flagLoaded
	flagStoreOK
	flagLeaving
	flagOtherKey
	flagUndrained
)

func (w *body) append(b []byte, k kind) []byte {
	start := len(b)
	b = begin(b, k)
	b = appendNumber(b, bodySent, w.sent)
	b = appendNumber(b, bodyFlags, w.flags)
	b = appendNumber(b, bodyEpoch, uint64(w.epoch))
	b = appendID(b, bodyNonce, w.nonce)
	b = appendNumber(b, bodyPosEpoch, uint64(w.posEpoch))
	b = appendNumber(b, bodySlot, w.slot)
	b = appendID(b, bodyPosNonce, w.posNonce)
	b = appendNumber(b, bodyLevel, uint64(w.level))
	b = appendNumber(b, bodyCommitted, w.committed)
	b = appendNumber(b, bodyHand, w.hand)
	b = appendNumber(b, bodyCRC, uint64(w.crc))
	if w.prefix != nil {
		b = appendBytes(b, bodyPrefix, w.prefix)
	}
	return end(b, start)
}

func decodeBody(b []byte) (w body, err error) {
	small := func(f field, name string, to *uint32) error {
		n, err := f.uint(name, math.MaxUint32)
		*to = uint32(n)
		return err
	}
	err = fields(b, func(f field) (err error) {
		switch f.number {
		case bodySent:
			w.sent, err = f.uint("time", math.MaxUint64)
		case bodyFlags:
			w.flags, err = f.uint("flags", math.MaxUint64)
		case bodyEpoch:
			err = small(f, "epoch", &w.epoch)
		case bodyNonce:
			w.nonce, err = f.id("nonce")
		case bodyPosEpoch:
			err = small(f, "epoch of the position", &w.posEpoch)
		case bodySlot:
			w.slot, err = f.uint("slot", math.MaxUint64)
		case bodyPosNonce:
			w.posNonce, err = f.id("nonce of the position")
		case bodyLevel:
			err = small(f, "format level", &w.level)
		case bodyCommitted:
			w.committed, err = f.uint("append time", math.MaxInt64)
		case bodyHand:
			w.hand, err = f.uint("hand-over", math.MaxUint64)
		case bodyCRC:
			err = small(f, "checksum", &w.crc)
		case bodyPrefix:
			w.prefix, err = f.bytes, f.want("slot", protowire.BytesType)
		}
		return err
	})
	return w, err
}

// bits collects flags.
func bits(of map[uint64]bool) (flags uint64) {
	for bit, on := range of { //tidy:unordered bits are added
		if on {
			flags |= bit
		}
	}
	return flags
}

// appendMessage appends a message as a frame.
func appendMessage(b []byte, m *cluster.Message) []byte {
	w := body{sent: m.Sent}
	switch v, h := &m.Beat, &m.Hand; m.Kind {
	case cluster.MsgBeat:
		w.flags = bits(map[uint64]bool{
			flagLeads: v.Leads, flagStands: v.Stands, flagLoaded: v.Loaded, flagStoreOK: v.StoreOK, flagLeaving: v.Leaving, flagOtherKey: v.OtherKey,
		})
		w.epoch, w.nonce, w.posEpoch, w.slot, w.posNonce, w.level = v.Epoch, v.Nonce, v.Pos.Epoch, v.Pos.Slot, v.PosNonce, v.Level
		if !v.Committed.IsZero() {
			w.committed = uint64(max(v.Committed.UnixMicro(), 0))
		}
	case cluster.MsgPrepare, cluster.MsgReady, cluster.MsgTake:
		w.flags = bits(map[uint64]bool{flagUndrained: h.Undrained})
		w.hand, w.epoch, w.nonce, w.posEpoch, w.slot, w.crc = h.ID, h.Epoch, h.Nonce, h.Pos.Epoch, h.Pos.Slot, h.PrevCRC
	}
	return w.append(b, kindMessage+kind(m.Kind))
}

// message returns the message of a kind that a body holds.
func (w *body) message(k cluster.MessageKind, from cluster.Run) cluster.Message {
	m := cluster.Message{Kind: k, Sent: w.sent}
	pos := state.Position{Epoch: w.posEpoch, Slot: w.slot}
	has := func(bit uint64) bool { return w.flags&bit != 0 }
	switch k {
	case cluster.MsgBeat:
		m.Beat = cluster.Beat{
			From: from, Leads: has(flagLeads), Stands: has(flagStands), Epoch: w.epoch, Nonce: w.nonce, Pos: pos, PosNonce: w.posNonce,
			Loaded: has(flagLoaded), StoreOK: has(flagStoreOK), Leaving: has(flagLeaving), OtherKey: has(flagOtherKey), Level: w.level,
		}
		if w.committed > 0 {
			m.Beat.Committed = time.UnixMicro(int64(w.committed))
		}
	case cluster.MsgPrepare, cluster.MsgReady, cluster.MsgTake:
		m.Hand = cluster.Hand{ID: w.hand, Epoch: w.epoch, Nonce: w.nonce, Pos: pos, PrevCRC: w.crc, Undrained: has(flagUndrained)}
	}
	return m
}

// errFrame: a frame is invalid.
var errFrame = errors.New("invalid frame")

// readFrame reads a frame of at most limit bytes. The body belongs to the caller.
func readFrame(r io.Reader, limit uint32) (k kind, body []byte, err error) {
	var head [prefixed]byte
	if _, err = io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n == 0 || n > limit {
		return 0, nil, fmt.Errorf("%w: %d bytes, want 1 to %d", errFrame, n, limit)
	}
	b := make([]byte, n)
	if _, err = io.ReadFull(r, b); err != nil {
		return 0, nil, err
	}
	return kind(b[0]), b[1:], nil
}

// decodeFrame adds what a frame says to an event. false: the kind is unknown, or says nothing.
func decodeFrame(k kind, b []byte, ev *Event) (bool, error) {
	switch {
	case k == kindSlot, k == kindNotice:
		w, err := decodeBody(b)
		ev.Kind, ev.Pos = Fed, state.Position{Epoch: w.posEpoch, Slot: w.slot}
		if ev.Prefix = nil; k == kindSlot {
			ev.Prefix = w.prefix
		}
		return true, wrapFrame(err)
	case k > kindMessage && k <= kindMessage+kind(cluster.MsgForgotten):
		w, err := decodeBody(b)
		ev.Kind, ev.Message = Received, w.message(cluster.MessageKind(k-kindMessage), ev.From)
		return true, wrapFrame(err)
	}
	return false, nil
}

func wrapFrame(err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	return nil
}

// appendID leaves out the zero ID.
func appendID(b []byte, number protowire.Number, id record.ID) []byte {
	if id.IsZero() {
		return b
	}
	return appendBytes(b, number, id[:])
}
