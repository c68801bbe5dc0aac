package sqs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/record"
)

const batchMax = 10

// outgoing is a message to send, with the digests of its answer.
type outgoing struct {
	queue.Message
	size                int
	body, attrs, traced string
}

// sender makes messages of entries.
type sender struct {
	x    *settings
	c    *Call
	fifo bool
	many bool // a batch has other errors
}

func (s *Server) sender(c *Call, many bool) (*sender, error) {
	x, err := s.existing(c, access.Write)
	if err != nil {
		return nil, err
	}
	return &sender{x: x, c: c, fifo: x.isFIFO(c.queue), many: many}, nil
}

// message returns the message of an entry.
func (s *sender) message(e *entry) (m outgoing, err error) {
	if e.MessageBody == nil || *e.MessageBody == "" {
		return m, errMissing("MessageBody")
	}
	if !validText(*e.MessageBody) {
		return m, errCharacters
	}
	m.Value, m.body, m.attrs = []byte(*e.MessageBody), digest([]byte(*e.MessageBody)), digestOf(e.MessageAttributes)
	if m.Headers, m.size, err = headersOf(e.MessageAttributes); err != nil {
		return m, err
	}
	if m.size += len(m.Value); m.size > s.x.size {
		if s.many {
			return m, errValue("One or more parameters cannot be validated. Reason: Message must be shorter than %d bytes.", s.x.size)
		}
		return m, errValue("One or more parameters are invalid. Reason: Message must be shorter than %d bytes.", s.x.size)
	}
	if err := s.trace(&m, e); err != nil {
		return m, err
	}
	m.add(headerSender, s.c.Client.Name())
	if err := s.delay(&m, e); err != nil {
		return m, err
	}
	return m, s.ordered(&m, e)
}

func (m *outgoing) add(name, v string) {
	m.Headers = append(m.Headers, record.Header{Key: name, Value: []byte(v)})
}

// trace takes the only system attribute that messages can be sent with.
func (s *sender) trace(m *outgoing, e *entry) error {
	for name, v := range e.MessageSystemAttributes { //tidy:unordered any invalid one is named
		if name != traceHeader || v.DataType != typeString || v.StringValue == nil || *v.StringValue == "" {
			return errValue("Message system attribute name '%.80s' is invalid.", name)
		}
		m.add(headerTrace, *v.StringValue)
	}
	if len(e.MessageSystemAttributes) == 0 && s.c.Trace != "" {
		m.add(headerTrace, s.c.Trace)
	}
	m.traced = digestOf(e.MessageSystemAttributes)
	return nil
}

func (s *sender) delay(m *outgoing, e *entry) error {
	switch d := e.DelaySeconds; {
	case d == nil:
	case s.fifo && *d != 0:
		return errParameter(attrDelay, *d, "The request include parameter that is not valid for this queue type.")
	case *d < 0 || *d > delayMax:
		return errParameter(attrDelay, *d, "DelaySeconds must be >= 0 and <= 900.")
	default:
		m.Delay = time.Duration(*d) * time.Second
	}
	return nil
}

// ordered takes the group and the dedup ID.
func (s *sender) ordered(m *outgoing, e *entry) error {
	check := func(name string, v *string) error {
		if v != nil && !groupText.MatchString(*v) {
			return errParameter(name, *v, "%s can only include alphanumeric and punctuation characters. 1 to 128 in length.", name)
		}
		return nil
	}
	if s.fifo && e.MessageGroupId == nil {
		if s.many {
			return errValue("The request must contain the parameter MessageGroupId.")
		}
		return errMissing("MessageGroupId")
	}
	if err := check("MessageGroupId", e.MessageGroupId); err != nil {
		return err
	}
	if err := check("MessageDeduplicationId", e.MessageDeduplicationId); err != nil {
		return err
	}
	if e.MessageGroupId != nil {
		m.Key = []byte(*e.MessageGroupId)
	}
	id := ""
	switch {
	case e.MessageDeduplicationId != nil && !s.fifo:
		return errParameter("MessageDeduplicationId", *e.MessageDeduplicationId, "The request includes a parameter that is not valid for this queue type.")
	case !s.fifo:
		return nil
	case e.MessageDeduplicationId != nil:
		id = *e.MessageDeduplicationId
	case s.x.content:
		sum := sha256.Sum256(m.Value)
		id = hex.EncodeToString(sum[:])
	default:
		return errValue("The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly")
	}
	m.add(headerDedup, id)
	if m.Dedup = id; s.x.scoped {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %s", len(m.Key), m.Key, id))
		m.Dedup = hex.EncodeToString(sum[:])
	}
	if s.x.Purges > 0 {
		m.Dedup = fmt.Sprintf("%d %s", s.x.Purges, m.Dedup) // IDs have no spaces
	}
	return nil
}

// incomplete reports whether a message of a FIFO queue has no group or no dedup ID, which refuses its batch.
func (s *sender) incomplete(e *entry) bool {
	return s.fifo && (e.MessageGroupId == nil || e.MessageDeduplicationId == nil && !s.x.content)
}

func (s *Server) sendMessage(ctx context.Context, c *Call) (*Answer, error) {
	from, err := s.sender(c, false)
	if err != nil {
		return nil, err
	}
	m, err := from.message(&c.in.entry)
	if err != nil {
		return nil, err
	}
	sent, err := s.send(ctx, c, []queue.Message{m.Message})
	if err == nil {
		err = sent[0].Err
	}
	if err != nil {
		return nil, err
	}
	return c.answer(func(o *output) { s.sent(o, c, from.fifo, &m, &sent[0]) }), nil
}

func (s *Server) send(ctx context.Context, c *Call, list []queue.Message) ([]queue.Sent, error) {
	ctx, err := c.Client.Changing(ctx, access.Write, c.queue)
	if err != nil {
		return nil, err
	}
	return s.o.Queues.Send(ctx, c.queue, list)
}

// sent writes the members of a message that was sent.
func (s *Server) sent(o *output, c *Call, fifo bool, m *outgoing, sent *queue.Sent) {
	o.text("MessageId", s.messageID(c.queue, sent.ID))
	o.text("MD5OfMessageBody", m.body)
	o.textIf("MD5OfMessageAttributes", m.attrs)
	o.textIf("MD5OfMessageSystemAttributes", m.traced)
	if fifo {
		o.text("SequenceNumber", sequence(sent.ID))
	}
}

// messageID returns the ID of a message as clients of AWS expect it: a UUID (version 8 of RFC 9562), with
// the first bytes of the ID of the queue, the priority, and the offset, from 1, in the last digits. So no two
// messages of a broker have the same one.
func (s *Server) messageID(name string, id queue.ID) string {
	topic, _ := s.o.Broker.TopicNamed(name)
	b, at := topic.ID[:6], id.Offset+1
	return fmt.Sprintf("%x-%x-8%03x-%04x-%012x", b[:4], b[4:6], id.Partition&0xfff, 0x8000|at>>48&0x3fff, at&(1<<48-1))
}

// sequence is the SequenceNumber of a message of a FIFO queue.
func sequence(id queue.ID) string { return fmt.Sprintf("%020d", id.Offset+1) }

var entryID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,80}$`)

// checkEntries checks the entries of a batch.
func (c *Call) checkEntries() error {
	list := c.in.Entries
	switch {
	case len(list) == 0:
		return refuse("EmptyBatchRequest", "There should be at least one %sRequestEntry in the request.", c.Action)
	case len(list) > batchMax:
		return refuse("TooManyEntriesInBatchRequest", "Maximum number of entries per request are %d. You have sent %d.", batchMax, len(list))
	}
	seen := map[string]struct{}{}
	for i := range list {
		id := list[i].Id
		if !entryID.MatchString(id) {
			return refuse("InvalidBatchEntryId", "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long.")
		}
		if _, twice := seen[id]; twice {
			return refuse("BatchEntryIdsNotDistinct", "Id %s repeated.", id)
		}
		seen[id] = struct{}{}
	}
	return nil
}

func (s *Server) sendBatch(ctx context.Context, c *Call) (*Answer, error) {
	if err := c.checkEntries(); err != nil {
		return nil, err
	}
	from, err := s.sender(c, true)
	if err != nil {
		return nil, err
	}
	n := len(c.in.Entries)
	made, errs := make([]outgoing, n), make([]error, n)
	var list []queue.Message
	var which []int
	size := 0
	for i := range c.in.Entries {
		e := &c.in.Entries[i]
		if made[i], errs[i] = from.message(e); errs[i] != nil && from.incomplete(e) {
			return nil, errs[i]
		} else if errs[i] == nil {
			list, which = append(list, made[i].Message), append(which, i)
		}
		size += made[i].size
	}
	if size > messageMax {
		return nil, refuse("BatchRequestTooLong", "Batch requests cannot be longer than %d bytes. You have sent %d bytes.", messageMax, size)
	}
	sent := make([]queue.Sent, n)
	if len(list) > 0 {
		results, err := s.send(ctx, c, list)
		if err != nil {
			return nil, err
		}
		for i, r := range results {
			sent[which[i]], errs[which[i]] = r, r.Err
		}
	}
	return s.batch(c, errs, func(o *output, i int) { s.sent(o, c, from.fifo, &made[i], &sent[i]) })
}

// batch answers a batch, in which write writes the other members of an entry.
func (s *Server) batch(c *Call, errs []error, write func(o *output, i int)) (*Answer, error) {
	var done, failed []int
	for i, err := range errs {
		if err == nil {
			done = append(done, i)
		} else {
			failed = append(failed, i)
		}
	}
	if len(done) == 0 { // the client repeats the whole request if the broker is the reason
		if e := s.Error(errs[0]); e.ours {
			return nil, e
		}
	}
	return c.answer(func(o *output) {
		if len(done) > 0 || c.Form == JSON {
			o.list("Successful", c.Action+"ResultEntry", len(done), func(i int) {
				o.text("Id", c.in.Entries[done[i]].Id)
				write(o, done[i])
			})
		}
		if len(failed) == 0 {
			return
		}
		o.list("Failed", "BatchResultErrorEntry", len(failed), func(i int) {
			e := s.Error(errs[failed[i]])
			o.text("Id", c.in.Entries[failed[i]].Id)
			o.truth("SenderFault", !e.ours)
			o.text("Code", e.Query)
			o.text("Message", e.Message)
		})
	}), nil
}
