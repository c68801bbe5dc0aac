package riemann

import (
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/record"
)

// EventsMax bounds the events of a message, because an empty event has two bytes.
const EventsMax = 10_000

// Fields of Msg, and the one of Query.
const (
	fieldOK     = 2 // bool, of an answer
	fieldError  = 3 // string, of an answer
	fieldStates = 4 // repeated State
	fieldQuery  = 5 // Query
	fieldEvents = 6 // repeated Event

	fieldString = 1 // of Query
)

// message is what walk finds in a Msg.
type message struct {
	events   int    // and states
	bytes    int    // bound of the keys and values of their records
	hasQuery bool   // the message has a query
	query    []byte // part of the message
}

// room bounds the size of the batches of the message's events.
func (m *message) room() int { return record.BuilderLen(m.events, m.bytes) }

// codec has the memory of a walk and of a transcoding.
type codec struct {
	event   event
	builder record.Builder
	host    []byte // of a host that is not valid UTF-8, and of an event without one
	service []byte
}

var codecs = sync.Pool{New: func() any { return new(codec) }}

// done returns c to its pool, without references to a message.
func (c *codec) done() {
	clear(c.event.attributes)
	c.event, c.builder = event{attributes: c.event.attributes[:0]}, record.Builder{}
	codecs.Put(c)
}

// walk checks the bytes of a Msg, and bounds the size of its records. Fields that only answers have,
// and unknown ones, are skipped. The error is errMalformed.
func walk(b []byte) (m message, err error) {
	c := codecs.Get().(*codec)
	defer c.done()
	var f field
	for len(b) > 0 {
		if b, err = f.read(b); err != nil {
			return m, err
		}
		switch {
		case f.isEvent():
			if m.events++; m.events > EventsMax {
				return m, malformed("more than %d events", EventsMax)
			}
			if err := c.event.parse(f.b); err != nil {
				return m, err
			}
			m.bytes += c.event.jsonLen()
		case f.is(fieldQuery, protowire.BytesType):
			m.hasQuery = true
			if err := m.parseQuery(f.b); err != nil {
				return m, err
			}
		}
	}
	return m, nil
}

// isEvent reports whether a field of a Msg is an event, or a state, which has the same fields.
func (f *field) isEvent() bool {
	return f.typ == protowire.BytesType && (f.num == fieldEvents || f.num == fieldStates)
}

func (m *message) parseQuery(b []byte) (err error) {
	var f field
	for len(b) > 0 {
		if b, err = f.read(b); err != nil {
			return err
		}
		if f.is(fieldString, protowire.BytesType) {
			m.query = f.b
		}
	}
	return nil
}

// transcode writes the events of a Msg, which walk has accepted, as batches into buf, whose capacity
// is message.room. now is the timestamp of the records in milliseconds. The result aliases buf.
func transcode(b, buf []byte, now int64) ([]byte, record.Summary) {
	c := codecs.Get().(*codec)
	defer c.done()
	c.builder.Reset(buf, now)
	var f field
	for len(b) > 0 {
		rest, err := f.read(b)
		if b = rest; err == nil && f.isEvent() {
			err = c.event.parse(f.b)
			c.add()
		}
		if err != nil {
			panic("riemann: transcode of a message that walk refuses: " + err.Error())
		}
	}
	return c.builder.Finish()
}

// add adds the record of the event.
func (c *codec) add() {
	var name, entity []byte
	var wholeName, wholeEntity bool
	name, c.service, wholeName = c.event.service.fit(encoding.EventNameMax, c.service)
	entity, c.host, wholeEntity = c.event.host.fit(encoding.EventEntityMax, c.host)
	value := c.event.appendJSON(c.builder.Room(len(entity)), name, entity, wholeName, wholeEntity)
	c.builder.Add(entity, value)
}

// appendAnswer appends a Msg with the result of a message, without its events.
func appendAnswer(b []byte, fault string) []byte {
	b = protowire.AppendTag(b, fieldOK, protowire.VarintType)
	b = protowire.AppendVarint(b, protowire.EncodeBool(fault == ""))
	if fault == "" {
		return b
	}
	b = protowire.AppendTag(b, fieldError, protowire.BytesType)
	return protowire.AppendString(b, fault)
}
