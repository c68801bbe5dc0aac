// Package riemanntest has a decoder of Riemann's messages, with which tests compare, and the load of
// the benchmarks: the messages, a client that sends them in a pipeline, and a server that only reads,
// counts and answers.
package riemanntest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"
)

// PerMessage is the number of events in a message of the load, as in Riemann's own load test.
const PerMessage = 100

const (
	lengthBytes = 4
	bufferBytes = 64 << 10
	accepted    = "\x00\x00\x00\x02\x10\x01" // the answer "ok" with its length
)

// Message encodes n events like those of a collector of metrics.
func Message(n int) (b []byte) {
	for i := range n {
		var e []byte // the numbers are those of riemann.proto
		text := func(num protowire.Number, s string) {
			e = protowire.AppendString(protowire.AppendTag(e, num, protowire.BytesType), s)
		}
		float := func(num protowire.Number, f float32) {
			e = protowire.AppendFixed32(protowire.AppendTag(e, num, protowire.Fixed32Type), math.Float32bits(f))
		}
		text(4, fmt.Sprintf("web%d.example.com", i%10)) // host
		text(3, "cpu/percent-user")                     // service
		e = protowire.AppendVarint(protowire.AppendTag(e, 1, protowire.VarintType), uint64(1795654800+i))
		text(2, "ok") // state
		float(8, 60)  // ttl
		e = protowire.AppendFixed64(protowire.AppendTag(e, 14, protowire.Fixed64Type), math.Float64bits(0.25+float64(i)))
		float(15, 0.25+float32(i))         // the metric again, as collectd does
		text(7, "collectd")                // tag
		text(9, "\n\x06plugin\x12\x03cpu") // attribute
		b = protowire.AppendBytes(protowire.AppendTag(b, 6, protowire.BytesType), e)
	}
	return b
}

// WithLength returns a message with its length.
func WithLength(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// Pipeline is a client that sends one message again and again, before the answers to the earlier
// ones.
type Pipeline struct {
	Message []byte // with its length
	Window  int    // messages without an answer
	More    func() bool
	// Answered is called after each answer, concurrently with More.
	Answered func()
}

// Run sends messages to a server while More returns true, and then waits for the last answers.
func (p *Pipeline) Run(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	waiting := make(chan struct{}, p.Window-1) // the reader has one
	var reading sync.WaitGroup
	var fault error // of the reader
	reading.Go(func() {
		r := bufio.NewReader(c)
		for range waiting {
			if fault != nil {
				continue
			}
			if fault = readAnswer(r); fault != nil {
				_ = c.Close() // the sender stops
				continue
			}
			p.Answered()
		}
	})
	err = p.send(c, waiting)
	close(waiting)
	reading.Wait()
	return errors.Join(fault, err)
}

// Ask sends a message with its length, and waits for the answer.
func Ask(c net.Conn, msg []byte) error {
	if _, err := c.Write(msg); err != nil {
		return err
	}
	return readAnswer(c)
}

func readAnswer(r io.Reader) error {
	var answer [len(accepted)]byte
	if _, err := io.ReadFull(r, answer[:]); err != nil {
		return err
	}
	if string(answer[:]) != accepted {
		return fmt.Errorf("answer %x, want %x", answer, accepted)
	}
	return nil
}

// send writes messages. It puts an element into waiting for each.
func (p *Pipeline) send(c net.Conn, waiting chan<- struct{}) error {
	w := bufio.NewWriterSize(c, bufferBytes)
	for p.More() {
		select {
		case waiting <- struct{}{}:
		default: // the window is full
			if err := w.Flush(); err != nil {
				return err
			}
			waiting <- struct{}{}
		}
		if _, err := w.Write(p.Message); err != nil {
			return err
		}
	}
	return w.Flush()
}

// Bare is a server that answers each message when it has read it, and counts it. It is the lower
// bound for the cost of the protocol.
type Bare struct {
	l       net.Listener
	serving sync.WaitGroup
	count   atomic.Int64
}

// NewBare starts a server on an address.
func NewBare(addr string) (*Bare, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &Bare{l: l}
	s.serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.serving.Go(func() { s.serve(c) })
		}
	})
	return s, nil
}

func (s *Bare) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, bufferBytes)
	for {
		head, err := r.Peek(lengthBytes)
		if err != nil {
			return
		}
		n := int(binary.BigEndian.Uint32(head))
		if _, err := r.Discard(lengthBytes + n); err != nil {
			return
		}
		s.count.Add(1)
		if _, err := io.WriteString(c, accepted); err != nil {
			return
		}
	}
}

// Addr returns the address of the server.
func (s *Bare) Addr() string { return s.l.Addr().String() }

// Count returns the number of messages.
func (s *Bare) Count() int64 { return s.count.Load() }

// Close stops accepting clients and waits until the connected ones have left.
func (s *Bare) Close() error {
	err := s.l.Close()
	s.serving.Wait()
	return err
}
