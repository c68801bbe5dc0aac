package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/protobuf"
	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
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

// fields lists the fields of a hello and of a refusal, see FORMAT.md.
func (h *hello) fields(c *protobuf.Codec) {
	c.SkipUnknown()
	c.Fixed(1, "node", h.from.Node[:])
	c.Fixed(2, "run", h.from.ID[:])
	c.Fixed(3, "receiver's node", h.to.Node[:])
	c.Fixed(4, "receiver's run", h.to.ID[:])
	c.Alias(5, "proof of the root key", &h.root)
	c.Alias(6, "proof of the secrets key", &h.secrets)
	c.String(7, "reason", &h.reason)
}

// begin appends the head of a frame, and end sets its length.
func begin(b []byte, k kind) []byte { return append(b, 0, 0, 0, 0, byte(k)) }

func end(b []byte, start int) []byte {
	binary.LittleEndian.PutUint32(b[start:], uint32(len(b)-start-prefixed))
	return b
}

func appendHello(b []byte, k kind, h *hello) []byte {
	return end(protobuf.Append(begin(b, k), h, (*hello).fields), len(b))
}

// body has the fields of all messages, slots and notices.
type body struct {
	sent, flags, hand, slot     uint64
	committed                   int64
	epoch, posEpoch, level, crc uint32
	nonce, posNonce             record.ID
	prefix                      []byte
}

// fields lists the fields of a body, see FORMAT.md.
func (w *body) fields(c *protobuf.Codec) {
	c.SkipUnknown()
	protobuf.Int(c, 1, "time", &w.sent)
	protobuf.Int(c, 2, "flags", &w.flags)
	protobuf.Int(c, 3, "epoch", &w.epoch)
	c.Fixed(4, "nonce", w.nonce[:])
	protobuf.Int(c, 5, "epoch of the position", &w.posEpoch)
	protobuf.Int(c, 6, "slot", &w.slot)
	c.Fixed(7, "nonce of the position", w.posNonce[:])
	protobuf.Int(c, 8, "format level", &w.level)
	if protobuf.Int(c, 9, "append time", &w.committed); w.committed < 0 {
		c.Fail(fmt.Errorf("append time: %d is before 1970", w.committed))
	}
	protobuf.Int(c, 10, "hand-over", &w.hand)
	protobuf.Int(c, 11, "checksum", &w.crc)
	c.Alias(12, "slot", &w.prefix)
}

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
	c := protobuf.Encoder(begin(b, k))
	w.fields(c)
	frame, _ := c.Result()
	return end(frame, len(b))
}

func decodeBody(b []byte) (w body, err error) {
	c := protobuf.Decoder(b)
	for c.More() {
		w.fields(c)
	}
	_, err = c.Result()
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
			w.committed = max(v.Committed.UnixMicro(), 0)
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
			m.Beat.Committed = time.UnixMicro(w.committed)
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
