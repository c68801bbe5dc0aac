package framed_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/protocols/framed"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// refusal answers a request that is not read with its key.
func refusal(key byte) framed.Finish {
	return func(context.Context) (framed.Answer, error) {
		return framed.Answer{Head: []byte{0, 0, 0, 0, key}}, nil
	}
}

// TestRefusals: a request without memory is skipped and answered in its turn, and the connection
// continues. One that is not admitted is answered last.
func TestRefusals(t *testing.T) {
	s := start(t, framed.Options{Unsigned: true})
	memory := must.Get(s.class.Reserve(s.class.Limit()))(t)
	p := s.dial(t)
	p.send(frame(keyWait, 1, 10))
	p.send(frame(keyRefused, 2, 500_000))
	p.send(frame(keyEcho, 3, 0))
	time.AfterFunc(0, func() { close(s.hold) })
	p.expect(frame(keyWait, 1, 10))
	p.expect([]byte{0, 0, 0, 1, keyRefused})
	p.expect(frame(keyEcho, 3, 0))
	memory.Release()
	p.send(frame(keyRefused, 4, 500_000))
	p.expect(frame(keyRefused, 4, 500_000))
	for _, length := range []uint32{2 << 20, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		p := s.dial(t)
		p.send(append(frame(keyEcho, 5, 10), binary.BigEndian.AppendUint32(nil, length)...))
		p.send(make([]byte, 100_000)) // unread bytes do not reset the answer
		p.expect(frame(keyEcho, 5, 10))
		p.expect([]byte{0, 0, 0, 1, keyLast})
		p.ended()
	}
}

// TestLargeRequests: clients that announce large requests and do not send them use a part of the
// memory. Others get the rest, and their turn.
func TestLargeRequests(t *testing.T) {
	t.Parallel()
	const size = 300_000
	s := start(t, framed.Options{LargeBytes: 2*size + 100, Step: time.Minute})
	for range 4 {
		s.dial(t).send(frame(keyLarge, 1, size)[:1000])
	}
	sebtest.Eventually(t, "two of them have memory", func() bool { return s.class.Used() > size })
	p := s.dial(t)
	p.send(frame(keyLarge, 2, 60_000))
	p.expect(frame(keyLarge, 2, 60_000))
	if used := s.class.Used(); used > 3*size {
		t.Errorf("%d bytes are reserved for requests of %d", used, size)
	}
	p.send(frame(keyLarge, 3, size))
	p.expect(frame(keyLarge, 3, size))
}
