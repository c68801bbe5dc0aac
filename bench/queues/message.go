package queues

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"sync"
)

// messageBytes is the size of all messages.
const messageBytes = 1 << 10

// headerBytes is the size of a message's header, in hexadecimal digits: producer, number and time as 8 bytes
// each, and a checksum of 4 bytes over these and the rest.
const headerBytes = 2 * 28

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func newRandom(seed int) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 1)) }

// filler returns random letters and digits for a producer's messages.
func filler(r *rand.Rand) []byte {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	b := make([]byte, messageBytes-headerBytes)
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	return b
}

// encode returns a message that was handed to the client at a time.
func encode(producer, number int, at int64, filler []byte) []byte {
	var head [28]byte
	binary.BigEndian.PutUint64(head[0:], uint64(producer))
	binary.BigEndian.PutUint64(head[8:], uint64(number))
	binary.BigEndian.PutUint64(head[16:], uint64(at))
	binary.BigEndian.PutUint32(head[24:], crc32.Update(crc32.Checksum(head[:24], castagnoli), castagnoli, filler))
	m := make([]byte, headerBytes, messageBytes)
	hex.Encode(m, head[:])
	return append(m, filler...)
}

var errDamaged = errors.New("damaged message")

func decode(m []byte) (producer, number int, at int64, err error) {
	var head [28]byte
	if len(m) != messageBytes {
		return 0, 0, 0, fmt.Errorf("%w: %d bytes", errDamaged, len(m))
	}
	if _, err := hex.Decode(head[:], m[:headerBytes]); err != nil {
		return 0, 0, 0, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if crc32.Update(crc32.Checksum(head[:24], castagnoli), castagnoli, m[headerBytes:]) != binary.BigEndian.Uint32(head[24:]) {
		return 0, 0, 0, fmt.Errorf("%w: wrong checksum", errDamaged)
	}
	return int(binary.BigEndian.Uint64(head[0:])), int(binary.BigEndian.Uint64(head[8:])), int64(binary.BigEndian.Uint64(head[16:])), nil
}

// The states of a message in a ledger.
const (
	unacked = iota // sent
	acked
	worked = 1 << 7 // at least once
)

// ledger knows what happened to each message.
type ledger struct {
	producers []page

	mu     sync.Mutex // guards the fields below
	faults []error    // at most faultsMax
	again  int        // messages that came again
}

// page has the messages of a producer.
type page struct {
	mu     sync.Mutex
	states []uint8 // by number
}

const faultsMax = 10

func newLedger(producers int) *ledger { return &ledger{producers: make([]page, producers)} }

// sent adds a message and returns its number.
func (l *ledger) sent(producer int) int {
	p := &l.producers[producer]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.states = append(p.states, unacked)
	return len(p.states) - 1
}

// acked says that n messages from a number on are acknowledged.
func (l *ledger) acked(producer, number, n int) {
	p := &l.producers[producer]
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := number; i < number+n; i++ {
		p.states[i] |= acked
	}
}

// worked says that a worker has begun with a message, and returns when that was sent and whether it is the
// first time.
func (l *ledger) worked(m []byte) (at int64, first bool) {
	producer, number, at, err := decode(m)
	if err == nil && (producer >= len(l.producers) || !l.producers[producer].begin(number, &first)) {
		err = fmt.Errorf("message %d of producer %d was never sent", number, producer)
	}
	if err != nil {
		l.fault(err)
		return 0, false
	}
	if !first {
		l.mu.Lock()
		l.again++
		l.mu.Unlock()
	}
	return at, first
}

func (p *page) begin(number int, first *bool) (known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if number >= len(p.states) {
		return false
	}
	*first = p.states[number]&worked == 0
	p.states[number] |= worked
	return true
}

func (l *ledger) fault(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.faults) < faultsMax {
		l.faults = append(l.faults, err)
	}
}

// count returns the messages that were acknowledged, and those of them with which no worker has begun.
func (l *ledger) count() (all, lost int) {
	for i := range l.producers {
		p := &l.producers[i]
		p.mu.Lock()
		for _, s := range p.states {
			if s&acked != 0 {
				all++
				if s&worked == 0 {
					lost++
				}
			}
		}
		p.mu.Unlock()
	}
	return all, lost
}
