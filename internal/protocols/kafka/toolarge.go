package kafka

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/protocols/framed"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// tooLargePartitions bounds the partitions of a Produce that is refused by tooLarge.
const tooLargePartitions = 1000

// tooLarge answers a Produce above the limit with MESSAGE_TOO_LARGE for each of its partitions,
// because clients send a request again whose connection is closed. It reads the request without its
// records, which it drops.
func (s *session) tooLarge(from io.Reader, why error) (framed.Finish, error) {
	var head [wire.HeadMin]byte
	r := produceReader{r: bufio.NewReader(from)}
	r.full(head[:])
	h := wire.Peek(head[:])
	c := &call{session: s, who: s.identity, api: s.apis[h.Key]}
	c.version, c.id = h.Version, h.Correlation
	c.met.requests[h.Key].Inc()
	s.noteClient([]byte(r.text()))
	resp := kmsg.NewPtrProduceResponse()
	acks := r.request(c, resp)
	if r.err != nil {
		s.warn("kafka: request too large, connection closed", "err", why)
		return nil, errors.Join(why, r.err)
	}
	s.warn("kafka: request too large", "err", why)
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[j]
			p.ErrorCode, p.ErrorMessage, p.BaseOffset = kerr.MessageTooLarge.Code, text(why), -1
			c.met.rejected.Inc()
		}
	}
	return func(context.Context) (framed.Answer, error) {
		if acks == 0 {
			return framed.Answer{}, why
		}
		return c.answer(resp, resp.AppendTo), nil
	}, nil
}

// look returns a Scan for a Produce of one partition whose first batch its topic does not allow, so that
// the request does not wait for memory. start is the start of the request.
func (s *session) look(start []byte) func(io.Reader) (framed.Finish, error) {
	h := wire.Peek(start)
	c := &call{session: s, api: s.apis[h.Key]}
	if c.version = h.Version; c.version < batchVersion || c.version > c.api.max || c.standsBy() {
		return nil
	}
	r := produceReader{r: bufio.NewReader(bytes.NewReader(start[wire.HeadMin:]))}
	r.text() // the client ID
	_, topics := r.head(c)
	t := r.topic(c)
	partitions, _, records := r.size(), r.int32(), r.size()
	var head [12]byte // base offset, length of the rest
	r.full(head[:])
	size := len(head) + int(binary.BigEndian.Uint32(head[8:]))
	if r.err != nil || topics != 1 || partitions != 1 || size > records {
		return nil // another answer
	}
	ref, known := s.b.TopicNamed(t.Topic)
	if c.version >= 13 {
		ref, known = s.b.TopicOf(t.TopicID)
	}
	if !known || !s.identity.Allow(access.Write, access.Topic, ref.Name) {
		return nil
	}
	why := s.b.CheckBatchSize(ref.Name, size, true)
	if why == nil {
		return nil
	}
	return func(r io.Reader) (framed.Finish, error) { return s.tooLarge(r, why) }
}

// produceReader reads a Produce from a connection. After an error it returns zero values.
type produceReader struct {
	r        *bufio.Reader
	flexible bool
	err      error
}

// head reads a request from after its client ID up to the number of topics.
func (r *produceReader) head(c *call) (acks int16, topics int) {
	if r.flexible = c.api.shape.IsFlexible(c.version); r.flexible {
		r.tags()
	}
	if c.version >= batchVersion {
		r.text() // the transactional ID
	}
	acks = r.int16()
	r.int32() // the timeout
	return acks, r.size()
}

// topic reads the name or the ID of a topic.
func (r *produceReader) topic(c *call) kmsg.ProduceResponseTopic {
	t := kmsg.NewProduceResponseTopic()
	if c.version >= 13 {
		r.full(t.TopicID[:])
	} else {
		t.Topic = r.text()
	}
	return t
}

// request reads a request after its client ID. It adds the topics and partitions to resp.
func (r *produceReader) request(c *call, resp *kmsg.ProduceResponse) (acks int16) {
	acks, topics := r.head(c)
	partitions := 0
	for range topics {
		t := r.topic(c)
		for range r.size() {
			p := kmsg.NewProduceResponseTopicPartition()
			p.Partition = r.int32()
			r.skip(r.size())
			r.tags()
			t.Partitions = append(t.Partitions, p)
			if partitions++; partitions > tooLargePartitions {
				r.fail(wire.ErrMalformed)
			}
			if r.err != nil {
				return acks
			}
		}
		r.tags()
		resp.Topics = append(resp.Topics, t)
		if len(resp.Topics) > tooLargePartitions {
			r.fail(wire.ErrMalformed)
		}
		if r.err != nil {
			return acks
		}
	}
	return acks
}

func (r *produceReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *produceReader) full(b []byte) {
	if r.err != nil {
		return
	}
	_, err := io.ReadFull(r.r, b)
	r.err = err
}

func (r *produceReader) int16() int16 {
	var b [2]byte
	r.full(b[:])
	return int16(binary.BigEndian.Uint16(b[:]))
}

func (r *produceReader) int32() int32 {
	var b [4]byte
	r.full(b[:])
	return int32(binary.BigEndian.Uint32(b[:]))
}

// uvarint reads a length of the flexible encoding.
func (r *produceReader) uvarint() int {
	if r.err != nil {
		return 0
	}
	n, err := binary.ReadUvarint(r.r)
	if err == nil && n > 1<<31 {
		err = wire.ErrMalformed
	}
	if err != nil {
		r.err = err
		return 0
	}
	return int(n)
}

// size reads the length of bytes or of an array; that of null is 0.
func (r *produceReader) size() int {
	if r.flexible {
		return max(r.uvarint()-1, 0)
	}
	return int(max(r.int32(), 0))
}

// text reads a text; null is empty.
func (r *produceReader) text() string {
	n := 0
	if r.flexible {
		n = r.size()
	} else {
		n = int(max(r.int16(), 0))
	}
	if n > textMax {
		r.fail(wire.ErrMalformed)
	}
	if r.err != nil {
		return ""
	}
	b := make([]byte, n)
	r.full(b)
	return string(b)
}

// textMax bounds a text. A topic's name has at most 249 bytes.
const textMax = 1 << 10

func (r *produceReader) skip(n int) {
	if r.err != nil {
		return
	}
	_, err := r.r.Discard(n)
	r.err = err
}

// tags reads tagged fields, in flexible versions.
func (r *produceReader) tags() {
	if !r.flexible {
		return
	}
	for range r.uvarint() {
		r.uvarint()
		r.skip(r.uvarint())
		if r.err != nil {
			return
		}
	}
}
