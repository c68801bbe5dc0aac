package sim

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/test/riemanntest"
)

// sender is a Riemann client. It sends messages of events before the answers to earlier ones.
type sender struct {
	w    *simulation
	id   int
	seq  int64
	conn *wire // nil: not connected
	acks int   // in the calm
}

// message is a message that a sender has sent.
type message struct {
	at     int64
	events []*sentEvent
	broken bool // it is malformed
}

// senders starts the Riemann clients of a run.
func (w *simulation) senders() {
	for i := range w.cfg.Senders {
		s := &sender{w: w, id: i}
		w.riemann = append(w.riemann, s)
		w.after(w.upTo(w.eventRand, w.cfg.Think), s.next)
	}
}

// next sends a message, after it has connected to a broker, which is mostly one that leads.
func (s *sender) next() {
	w := s.w
	if c := s.conn; c != nil && (c.left || c.ended || c.f.dead) {
		s.conn = nil
	}
	if w.late() {
		return
	}
	w.after(w.around(w.eventRand, w.cfg.Think), s.next)
	if s.conn == nil {
		r := w.nodes[w.eventRand.IntN(w.cfg.Nodes)].run
		if r == nil || r.paused || r.core.Role() != 0 && !r.Leads() && w.eventRand.IntN(8) > 0 {
			return
		}
		w.stats.Riemann.Connections++
		s.conn = r.front().connect(s)
	}
	c := s.conn
	if len(c.waiting) >= 4*w.cfg.Pipeline {
		if w.now-c.waiting[0].at > 2*int64(w.cfg.ClientTimeout) {
			c.hangUp()
			s.conn = nil
		}
		return
	}
	b := s.message(c)
	c.send(riemanntest.WithLength(b))
}

// message draws a message of up to 5 events. Each event has another metric.
func (s *sender) message(c *wire) (b []byte) {
	w := s.w
	m := &message{at: w.now}
	for range w.eventRand.IntN(6) {
		b = append(b, s.event()...)
	}
	if w.eventRand.IntN(20) == 0 {
		b = append(b, 0x32, 0x7f, 0x0a) // an event that is longer than the message
		m.broken = true
	}
	w.stats.Riemann.Messages++
	c.waiting = append(c.waiting, m)
	events, _, err := riemanntest.Decode(b)
	if (err != nil) != m.broken {
		w.fail("simulator: decode a message: %v", err)
	}
	for _, e := range events {
		text, err := json.Marshal(e)
		if err != nil || w.check.events.sent[string(text)] != nil {
			w.fail("simulator: event %s: %v", text, err)
		}
		x := &sentEvent{c: c, seq: s.seq, entity: e["entity_id"].(string)}
		s.seq++
		m.events = append(m.events, x)
		w.check.events.sent[string(text)] = x
		w.stats.Riemann.Events++
	}
	return b
}

// event draws an event as a field of a message.
func (s *sender) event() []byte {
	r := s.w.eventRand
	var e []byte
	text := func(num protowire.Number, v string) {
		e = protowire.AppendString(protowire.AppendTag(e, num, protowire.BytesType), v)
	}
	if r.IntN(10) > 0 {
		text(4, fmt.Sprintf("host%d", r.IntN(4)))
	}
	if r.IntN(10) > 0 {
		text(3, fmt.Sprintf("service%d", r.IntN(3)))
	}
	s.w.eventNumber++
	e = protowire.AppendVarint(protowire.AppendTag(e, 13, protowire.VarintType), protowire.EncodeZigZag(s.w.eventNumber))
	for range r.IntN(4) {
		switch r.IntN(6) {
		case 0:
			text(2, []string{"ok", "critical", ""}[r.IntN(3)])
		case 1:
			text(5, []string{"a\n\"b\"", "é\xff", "\x00\\"}[r.IntN(3)])
		case 2:
			text(7, fmt.Sprintf("tag%d", r.IntN(3)))
		case 3:
			e = protowire.AppendFixed32(protowire.AppendTag(e, 8, protowire.Fixed32Type), math.Float32bits([]float32{0.5, 5, 3600}[r.IntN(3)]))
		case 4:
			e = protowire.AppendVarint(protowire.AppendTag(e, 1, protowire.VarintType), uint64(r.Int64N(1<<40)))
		case 5:
			text(9, string(protowire.AppendString([]byte("\x0a\x01"+string(rune('a'+r.IntN(3)))+"\x12"), "v")))
		}
	}
	field := protowire.Number(6)
	if r.IntN(5) == 0 {
		field = 4 // a state
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), e)
}

// The answers to messages without a query.
const (
	answerOK      = "\x10\x01"
	answerRefused = "\x10\x00"
)

// answered checks I19 when a front end sends an answer: it is that to the oldest message of the
// connection, and it is only ok if all its events are stored.
func (s *sender) answered(c *wire, answer []byte) {
	w := s.w
	if len(c.waiting) == 0 {
		w.fail("I19: sender %d: an answer to no message: %q", s.id, answer)
		return
	}
	m := c.waiting[0]
	c.waiting = c.waiting[1:]
	switch {
	case string(answer) == answerOK:
		w.stats.Riemann.Oks++
		if w.calm {
			s.acks++
		}
		if m.broken {
			w.fail("I19: sender %d: a malformed message is answered with ok", s.id)
		}
		for _, e := range m.events {
			if !e.stored {
				w.fail("I19: node %d acknowledged event %d of sender %d, which is not stored", c.f.r.n.id, e.seq, s.id)
			}
		}
	case len(answer) > 2 && string(answer[:2]) == answerRefused:
		w.stats.Riemann.Refused++
		if !m.broken && w.eventRand.IntN(2) == 0 { // tries another broker
			w.after(w.upTo(w.eventRand, 2*time.Millisecond), c.hangUp)
		}
	default:
		w.fail("I19: sender %d: unexpected answer %q", s.id, answer)
	}
}
