package cluster

import (
	"fmt"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// MessageKind is a kind of message between two runs. A run ignores kinds that it does not know.
type MessageKind uint8

// The kinds of messages.
const (
	MsgBeat      MessageKind = iota + 1 // Beat
	MsgEcho                             // answers a beat: its Sent
	MsgGoodbye                          // the sender ends
	MsgPrepare                          // Hand: the leader asks a standby to take over
	MsgReady                            // Hand: the standby can
	MsgTake                             // Hand: the leader commits nothing more unless this fails
	MsgForgotten                        // an operator has removed a registration
)

func (k MessageKind) String() string {
	names := [...]string{MsgBeat: "beat", MsgEcho: "echo", MsgGoodbye: "goodbye", MsgPrepare: "prepare", MsgReady: "ready", MsgTake: "take", MsgForgotten: "forgotten"}
	if k == 0 || int(k) >= len(names) {
		return fmt.Sprintf("message %d", k)
	}
	return names[k]
}

// Message is a small message from one run to another. Messages on one link keep their order.
type Message struct {
	Kind MessageKind
	// Sent is the time of a beat by the clock of its sender. Only the sender reads it, from the echo.
	Sent uint64
	Beat Beat
	Hand Hand
}

// Hand is a step of a hand-over.
type Hand struct {
	ID    uint64 // of this hand-over
	Epoch uint32 // that the leader leads
	Nonce record.ID
	// Pos is the leader's position. Of MsgTake it is where the successor seals, and PrevCRC is the
	// checksum of the head before it. Undrained: slots behind it are in flight, and the leader has stopped leading.
	Pos       state.Position
	PrevCRC   uint32
	Undrained bool
}
