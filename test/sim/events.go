package sim

import (
	"bytes"
	"encoding/json"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/record"
)

// eventTopic is the topic of Riemann events.
const eventTopic = "riemann"

// sentEvent is an event of a message.
type sentEvent struct {
	c      *wire
	seq    int64
	entity string
	stored bool
}

// events are the Riemann events of a run.
type events struct {
	sent map[string]*sentEvent // by the JSON of a decoder that is independent of the front end
	last map[wirePart]int64    // the newest event on the chain
}

type wirePart struct {
	c    *wire
	part uint32
}

func newEvents() events {
	return events{sent: map[string]*sentEvent{}, last: map[wirePart]int64{}}
}

// event checks I19 for a record on the chain: it is an event as the decoder of the tests reads it,
// and the events of a connection have its order.
func (c *checker) event(k partKey, rec *record.Record) {
	if k.topic != eventTopic {
		return
	}
	d := json.NewDecoder(bytes.NewReader(rec.Value))
	d.UseNumber()
	var e map[string]any
	err := d.Decode(&e)
	text, _ := json.Marshal(e)
	x := c.events.sent[string(text)]
	if err != nil || x == nil || x.entity != string(rec.Key) {
		c.w.fail("I19: %v offset %d has key %q and value %s, which is no event that was sent: %v", k, rec.Offset, rec.Key, rec.Value, err)
		return
	}
	at := wirePart{x.c, k.part}
	if last, ok := c.events.last[at]; ok && x.seq <= last {
		c.w.fail("I19: %v offset %d has event %d of sender %d after event %d of the connection", k, rec.Offset, x.seq, x.c.s.id, last)
	}
	c.events.last[at], x.stored = x.seq, true
	c.w.stats.Riemann.Stored++
}

// eventsAtEnd checks that every message of an open connection was answered, that senders got
// acknowledgements in the calm, and that the front end holds no memory.
func (c *checker) eventsAtEnd() {
	for _, s := range c.w.riemann {
		if x := s.conn; x != nil && !x.left && !x.ended && !x.f.dead && len(x.waiting) > 0 {
			c.w.fail("I13: sender %d waits for %d answers of node %d", s.id, len(x.waiting), x.f.r.n.id)
		}
		if s.acks == 0 {
			c.w.fail("I13: sender %d got no acknowledgement in the calm", s.id)
		}
	}
	for _, n := range c.w.nodes {
		if r := n.run; r != nil && r.events != nil && c.leads(r) {
			if used := r.events.budget.Class(budget.Produce).Used(); used != 0 {
				c.w.fail("I10: the Riemann front end of node %d holds %d bytes", n.id, used)
			}
		}
	}
}
