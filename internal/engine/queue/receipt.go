package queue

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/sebbroker/seb/record"
)

// Refusals of what a worker says about a message.
var (
	// ErrReceipt: the text is no receipt of the queue.
	ErrReceipt = errors.New("unknown receipt")
	// ErrStale: the message was settled with the receipt, or is with another worker.
	ErrStale = errors.New("stale receipt: the message was settled, or leased again")
	// ErrDone: the message is done. It is an ErrStale.
	ErrDone = fmt.Errorf("%w: it is done", ErrStale)
	// ErrNoDeadLetter: the queue has no dead-letter queue.
	ErrNoDeadLetter = errors.New("the queue has no dead-letter queue")
	// ErrUnread: the key of the message must be read first (Know).
	ErrUnread = errors.New("the message is not known yet")
	// ErrLeased: a worker has the message.
	ErrLeased = errors.New("a worker has the message")
	// ErrUnknownMessage: the queue has no such message, or it is done.
	ErrUnknownMessage = errors.New("unknown message, or it is done")
)

// ErrLimit: a limit is reached (LimitError).
var ErrLimit = errors.New("a limit of the queue is reached")

// LimitError names the limit. It is ErrLimit.
type LimitError struct {
	Setting string // or what is limited, and by what
	Max     int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s is reached: %d", e.Setting, e.Max)
}

// Is reports whether t is ErrLimit.
func (e *LimitError) Is(t error) bool { return t == ErrLimit }

// Receipt is a lease of a message.
type Receipt struct {
	ID
	Delivery uint32
	Epoch    uint32 // of the leader that gave the lease
}

// macSize is the size of a receipt's MAC in bytes.
const macSize = 10

// mac authenticates a receipt of a topic with the nonce of its epoch, which only brokers know. So a
// worker cannot make a receipt of a lease that was not given, even if the log does not know the lease.
func (r *Receipt) mac(topic, nonce record.ID) []byte {
	h := hmac.New(sha256.New, nonce[:])
	h.Write(topic[:])
	h.Write(r.numbers())
	return h.Sum(nil)[:macSize]
}

func (r *Receipt) numbers() []byte {
	b := binary.AppendUvarint(nil, uint64(r.Partition))
	b = binary.AppendUvarint(b, uint64(r.Offset))
	b = binary.AppendUvarint(b, uint64(r.Delivery))
	return binary.AppendUvarint(b, uint64(r.Epoch))
}

// Text returns the receipt for a worker.
func (r *Receipt) Text(topic, nonce record.ID) string {
	return base64.RawURLEncoding.EncodeToString(append(r.mac(topic, nonce), r.numbers()...))
}

// ParseReceipt reads a receipt of a topic. nonce returns that of an epoch. Errors: ErrReceipt.
func ParseReceipt(text string, topic record.ID, nonce func(epoch uint32) (record.ID, bool)) (r Receipt, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) <= macSize {
		return r, ErrReceipt
	}
	var v [4]uint64
	rest := b[macSize:]
	for i := range v {
		n := 0
		if v[i], n = binary.Uvarint(rest); n <= 0 {
			return r, ErrReceipt
		}
		rest = rest[n:]
	}
	r = Receipt{ID: ID{uint32(v[0]), int64(v[1])}, Delivery: uint32(v[2]), Epoch: uint32(v[3])}
	key, known := nonce(r.Epoch)
	if !known || !hmac.Equal(b[:macSize], r.mac(topic, key)) || string(r.numbers()) != string(b[macSize:]) {
		return Receipt{}, ErrReceipt
	}
	return r, nil
}
