package sqs

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/queue"
)

// worker checks the rights of a worker of the queue.
func (s *Server) worker(c *Call) (*settings, error) {
	x, err := s.existing(c, access.Read)
	if err != nil {
		return nil, err
	}
	return x, c.Client.May(access.Read, access.Group, c.queue)
}

// within returns the value of an optional number with bounds, or another one without it.
func within(name string, v *int, otherwise, low, high int, reason string) (int, error) {
	if v == nil {
		return otherwise, nil
	}
	if *v < low || *v > high {
		return 0, errParameter(name, *v, "%s", reason)
	}
	return *v, nil
}

// instant is the shortest lease: a message with VisibilityTimeout 0 is ready again at once.
const instant = time.Millisecond

// visibility is the time of a lease; 0: that of the queue.
func (x *settings) visibility(v *int) (time.Duration, error) {
	n, err := within(attrVisibility, v, -1, 0, visibleMax, "Must be between 0 and 43200, if provided.")
	switch {
	case err != nil:
		return 0, err
	case n == 0, n < 0 && x.Attributes[attrVisibility] == "0":
		return instant, nil
	case n < 0:
		return 0, nil
	}
	return time.Duration(n) * time.Second, nil
}

func (s *Server) receive(ctx context.Context, c *Call) (*Answer, error) {
	x, err := s.worker(c)
	if err != nil {
		return nil, err
	}
	r := queue.LeaseRequest{Queue: c.queue, By: c.Client.Name(), Groups: true}
	if r.Max, err = within("MaxNumberOfMessages", c.in.MaxNumberOfMessages, 1, 1, receiveMax, "Must be between 1 and 10, if provided."); err != nil {
		return nil, err
	}
	wait, err := within("WaitTimeSeconds", c.in.WaitTimeSeconds, x.wait, 0, waitMax, "Must be >= 0 and <= 20, if provided.")
	if err != nil {
		return nil, err
	}
	r.Wait = time.Duration(wait) * time.Second
	if r.Visibility, err = x.visibility(c.in.VisibilityTimeout); err != nil {
		return nil, err
	}
	fifo := x.isFIFO(c.queue)
	if id := c.in.ReceiveRequestAttemptId; id != nil && (!fifo || !groupText.MatchString(*id)) {
		return nil, errParameter("ReceiveRequestAttemptId", *id, "The request includes a parameter that is not valid for this queue type.")
	}
	leases, err := c.Client.Lease(ctx, r)
	if errors.Is(err, queue.ErrLimit) && !fifo {
		return nil, newError(403, "OverLimit", "%v", err)
	}
	if err != nil {
		return nil, err
	}
	if c.leases = leases; fifo {
		byGroup(leases.List)
	}
	n := len(leases.List)
	a := c.answer(func(o *output) {
		if n == 0 {
			return
		}
		o.list("Messages", "Message", n, func(i int) {
			before := len(o.b)
			s.message(o, c, x, fifo, &leases.List[i])
			err = errors.Join(err, c.Client.Reserve(int64(len(o.b)-before)))
		})
	})
	return a, err
}

// byGroup orders messages by their groups: first those whose first message was given least often, because at AWS
// a group that comes again is behind those that wait, then those with older ones.
func byGroup(list []queue.Leased) {
	first := map[string]*queue.Leased{}
	for _, m := range list {
		if first[string(m.Key)] == nil {
			first[string(m.Key)] = &m
		}
	}
	slices.SortStableFunc(list, func(a, b queue.Leased) int {
		x, y := first[string(a.Key)], first[string(b.Key)]
		return cmp.Or(cmp.Compare(x.Deliveries, y.Deliveries), cmp.Compare(x.Partition, y.Partition), cmp.Compare(x.Offset, y.Offset))
	})
}

// message writes a message for a worker.
func (s *Server) message(o *output, c *Call, x *settings, fifo bool, m *queue.Leased) {
	id, deliveries := s.letter(c, m)
	o.text("MessageId", id)
	o.text("ReceiptHandle", m.Receipt)
	o.text("MD5OfBody", digest(m.Value))
	o.text("Body", string(m.Value))
	attrs, system := attributesOf(m.Headers)
	have := map[string]string{
		"SenderId": system["SenderId"], "SentTimestamp": strconv.FormatInt(m.Sent.UnixMilli(), 10),
		"ApproximateReceiveCount":          strconv.FormatUint(deliveries, 10),
		"ApproximateFirstReceiveTimestamp": strconv.FormatInt(m.First.UnixMilli(), 10),
		"MessageDeduplicationId":           system["MessageDeduplicationId"], traceHeader: system[traceHeader],
		"MessageGroupId": string(m.Key),
	}
	if fifo {
		have["SequenceNumber"] = sequence(m.ID)
	}
	for i := range m.Headers {
		if m.Headers[i].Key == queue.HeaderQueue {
			have["DeadLetterQueueSourceArn"] = c.arn(string(m.Headers[i].Value))
		}
	}
	maps.DeleteFunc(have, func(name, v string) bool {
		return v == "" || !slices.Contains(c.in.AttributeNames, "All") && !slices.Contains(c.in.MessageSystemAttributeNames, "All") &&
			!slices.Contains(c.in.AttributeNames, name) && !slices.Contains(c.in.MessageSystemAttributeNames, name)
	})
	o.pairs("Attributes", "Attribute", "Name", have)
	maps.DeleteFunc(attrs, func(name string, _ value) bool { return !wanted(c.in.MessageAttributeNames, name) })
	if len(attrs) == 0 {
		return
	}
	o.text("MD5OfMessageAttributes", digestOf(attrs))
	o.mapped("MessageAttributes", "MessageAttribute", "Name", slices.Sorted(maps.Keys(attrs)), func(k string) {
		v := attrs[k]
		o.braces(func() {
			if isBinary(v.DataType) {
				o.blob("BinaryValue", v.BinaryValue)
			} else {
				o.text("StringValue", *v.StringValue)
			}
			o.text("DataType", v.DataType)
		})
	})
}

// letter returns the ID of a message, and how often workers got it. Those of a dead letter begin in the queue from
// which it comes.
func (s *Server) letter(c *Call, m *queue.Leased) (id string, deliveries uint64) {
	from, deliveries := "", uint64(m.Deliveries)
	id = s.messageID(c.queue, m.ID)
	for i := range m.Headers {
		switch h := &m.Headers[i]; h.Key {
		case queue.HeaderQueue:
			from = string(h.Value)
		case queue.HeaderMessage:
			if at, err := queue.ParseID(string(h.Value)); err == nil && from != "" {
				id = s.messageID(from, at)
			}
		case queue.HeaderDeliveries:
			n, _ := strconv.ParseUint(string(h.Value), 10, 32)
			deliveries += n
		}
	}
	return id, deliveries
}

// settling is an action on messages that a worker has: on one, or on those of a batch.
type settling struct {
	of     func(e *entry) (queue.Settlement, error)        // without the receipt
	result func(fifo bool, handle string, err error) error // the error of AWS
}

var (
	deleting = &settling{func(*entry) (queue.Settlement, error) { return queue.Settlement{Do: queue.Finish}, nil }, deleted}
	changing = &settling{visible, changed}
)

// deleted translates the result of a deletion.
func deleted(fifo bool, handle string, err error) error {
	switch {
	case errors.Is(err, queue.ErrReceipt):
		return newError(404, "ReceiptHandleIsInvalid", `The input receipt handle "%.200s" is not a valid receipt handle.`, handle)
	case errors.Is(err, queue.ErrStale) && !errors.Is(err, queue.ErrDone) && fifo:
		return errParameter("ReceiptHandle", handle, "The receipt handle has expired.")
	case errors.Is(err, queue.ErrStale): // deleted, or with another worker
		return nil
	}
	return err
}

// visible is the settlement of a change of visibility.
func visible(e *entry) (one queue.Settlement, err error) {
	n, err := within(attrVisibility, e.VisibilityTimeout, 0, 0, visibleMax, "Must be between 0 and 43200.")
	delay := time.Duration(n) * time.Second
	one = queue.Settlement{Do: queue.Extend, Delay: &delay}
	if n == 0 {
		one.Do = queue.Retry
	}
	return one, err
}

// changed translates the result of a change of visibility.
func changed(_ bool, handle string, err error) error {
	if errors.Is(err, queue.ErrStale) {
		return errParameter("ReceiptHandle", handle, "Message does not exist or is not available for visibility timeout change.")
	}
	return deleted(false, handle, err)
}

// settle settles the messages of entries, and returns the error of each.
func (s *Server) settle(ctx context.Context, c *Call, entries []entry, by *settling) ([]error, error) {
	x, err := s.worker(c)
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(entries))
	var list []queue.Settlement
	var which []int
	for i := range entries {
		e := &entries[i]
		if e.ReceiptHandle == nil {
			errs[i] = errMissing("ReceiptHandle")
			continue
		}
		var one queue.Settlement
		if one, errs[i] = by.of(e); errs[i] == nil {
			one.Receipt, one.InTime = *e.ReceiptHandle, one.Do == queue.Finish && x.isFIFO(c.queue)
			list, which = append(list, one), append(which, i)
		}
	}
	if len(list) == 0 {
		return errs, nil
	}
	results, err := s.o.Queues.Settle(ctx, c.queue, c.Client.Name(), list)
	for i, err := range results {
		errs[which[i]] = by.result(x.isFIFO(c.queue), list[i].Receipt, err)
	}
	return errs, err
}

func (s *Server) settleOne(ctx context.Context, c *Call, by *settling) (*Answer, error) {
	errs, err := s.settle(ctx, c, []entry{c.in.entry}, by)
	if err == nil {
		err = errs[0]
	}
	return c.empty(), err
}

func (s *Server) settleBatch(ctx context.Context, c *Call, by *settling) (*Answer, error) {
	if err := c.checkEntries(); err != nil {
		return nil, err
	}
	errs, err := s.settle(ctx, c, c.in.Entries, by)
	if err != nil {
		return nil, err
	}
	return s.batch(c, errs, func(*output, int) {})
}

func (s *Server) deleteMessage(ctx context.Context, c *Call) (*Answer, error) {
	return s.settleOne(ctx, c, deleting)
}

func (s *Server) deleteBatch(ctx context.Context, c *Call) (*Answer, error) {
	return s.settleBatch(ctx, c, deleting)
}

func (s *Server) changeVisibility(ctx context.Context, c *Call) (*Answer, error) {
	if c.in.VisibilityTimeout == nil {
		return nil, errMissing(attrVisibility)
	}
	return s.settleOne(ctx, c, changing)
}

func (s *Server) changeBatch(ctx context.Context, c *Call) (*Answer, error) {
	return s.settleBatch(ctx, c, changing)
}
