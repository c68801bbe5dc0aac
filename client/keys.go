package client

import (
	"context"
	"encoding/base64"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
)

// Freshness is the minimum state of the key index for a read. The index follows the log with a
// short delay.
type Freshness struct {
	// MinOffset, if not nil, waits until the index has the record at this offset. Use the offset
	// from Produce to read your own write. Error: ErrKeyIndexBehind if that takes longer than Wait.
	MinOffset *int64
	// Wait bounds the wait. 0 means 10 seconds; the maximum is 5 minutes.
	Wait time.Duration
}

// KeyOptions select the records that Key reads.
type KeyOptions struct {
	// Partition nil: all. MinOffset then refers to the partition of the key.
	Partition *int32
	Freshness
}

// KeysOptions select the keys that Keys returns.
type KeysOptions struct {
	Prefix   []byte // only keys with this prefix
	After    []byte // only keys after this one; nil: from the first
	PageSize int    // keys per request, at most 10,000; 0 means 1000
	// Partition is the partition of MinOffset. It may be nil if the topic has one partition.
	Partition *int32
	Freshness
}

// KeyHistoryOptions select the records that KeyHistory returns.
type KeyHistoryOptions struct {
	// Partition nil: all. MinOffset then refers to the partition of the key.
	Partition   *int32
	OldestFirst bool
	PageSize    int // records per request, at most 10,000; 0 means 100
	Freshness
}

const (
	keysPageDefault    = 1000
	historyPageDefault = 100
)

type (
	// KeyRecord is a record of a key. The caller may keep it.
	KeyRecord = record.KeyRecord
	// KeyEntry is a key with the position of its newest record. The caller may keep it.
	KeyEntry = record.KeyEntry
)

// Key returns the newest record of a key in a topic with a key index. An empty key is valid, nil is
// not. Errors: ErrKeyNotFound if there is none or it is a tombstone, ErrKeyIndexOff,
// ErrKeyIndexBehind.
func (c *Client) Key(ctx context.Context, topic string, key []byte, o KeyOptions) (KeyRecord, error) {
	q, err := keyQuery(topic, key, o.Partition, &o.Freshness)
	if err != nil {
		return KeyRecord{}, err
	}
	var r api.PartitionRecord
	if err := c.call(ctx, &request{method: http.MethodGet, path: "/key", query: q}, &r); err != nil {
		return KeyRecord{}, err
	}
	return keyRecordOf(&r)
}

// Keys returns the keys of a topic that have a value, in byte order, with one request per page. A
// key that has a value throughout the call appears exactly once, even while records are written. An
// error is the last element.
func (c *Client) Keys(ctx context.Context, topic string, o KeysOptions) iter.Seq2[KeyEntry, error] {
	return func(yield func(KeyEntry, error) bool) {
		q := url.Values{"topic-name": {topic}, "limit": {strconv.Itoa(orDefault(o.PageSize, keysPageDefault))}}
		setPartition(q, o.Partition)
		o.Freshness.set(q)
		setBytes(q, "prefix", o.Prefix)
		setBytes(q, "after", o.After)
		for {
			var page api.Keys
			err := c.call(ctx, &request{method: http.MethodGet, path: "/keys", query: q}, &page)
			if err != nil {
				yield(KeyEntry{}, err)
				return
			}
			for _, k := range page.Keys {
				key, err := bytesOf(k.Key, k.KeyBase64)
				if !yield(KeyEntry{Key: key, Partition: k.Partition, Offset: k.Offset, Timestamp: k.Timestamp}, err) || err != nil {
					return
				}
			}
			next, err := bytesOf(page.Next, page.NextBase64)
			if err != nil {
				yield(KeyEntry{}, err)
				return
			}
			if next == nil {
				return
			}
			for _, done := range []string{"after", "after-base64", "partition", "min-offset", "timeout"} {
				q.Del(done)
			}
			setBytes(q, "after", next)
		}
	}
}

// KeyHistory returns all readable records of a key, tombstones (with a nil Value) included. It
// returns the newest record first, unless OldestFirst is set. Records of one partition are in
// offset order. An error is the last element. The history of an unknown key is empty.
func (c *Client) KeyHistory(ctx context.Context, topic string, key []byte, o KeyHistoryOptions) iter.Seq2[KeyRecord, error] {
	return func(yield func(KeyRecord, error) bool) {
		q, err := keyQuery(topic, key, o.Partition, &o.Freshness)
		if err != nil {
			yield(KeyRecord{}, err)
			return
		}
		q.Set("limit", strconv.Itoa(orDefault(o.PageSize, historyPageDefault)))
		if o.OldestFirst {
			q.Set("order", "oldest")
		}
		for {
			var page api.KeyHistory
			if err := c.call(ctx, &request{method: http.MethodGet, path: "/key/history", query: q}, &page); err != nil {
				yield(KeyRecord{}, err)
				return
			}
			for i := range page.Records {
				r, err := keyRecordOf(&page.Records[i])
				if !yield(r, err) || err != nil {
					return
				}
			}
			if page.Next == "" {
				return
			}
			q.Set("after", page.Next)
			q.Del("min-offset")
			q.Del("timeout")
		}
	}
}

// keyQuery returns the parameters that requests about one key share.
func keyQuery(topic string, key []byte, partition *int32, s *Freshness) (url.Values, error) {
	if key == nil {
		return nil, &Error{NextOffset: -1, Start: -1, Committed: -1, Err: errors.New("the key is nil (an empty key is valid)")}
	}
	q := url.Values{"topic-name": {topic}}
	setBytes(q, "key", key)
	setPartition(q, partition)
	s.set(q)
	return q, nil
}

func (s *Freshness) set(q url.Values) {
	if s.MinOffset != nil {
		q.Set("min-offset", strconv.FormatInt(*s.MinOffset, 10))
	}
	if s.Wait > 0 {
		q.Set("timeout", s.Wait.String())
	}
}

func setPartition(q url.Values, partition *int32) {
	if partition != nil {
		q.Set("partition", strconv.Itoa(int(*partition)))
	}
}

// setBytes sets a parameter as text or in base64, whichever is shorter. It sets nothing if b is
// nil.
func setBytes(q url.Values, name string, b []byte) {
	switch encoded := base64.RawURLEncoding.EncodeToString(b); {
	case b == nil:
	case utf8.Valid(b) && len(url.QueryEscape(string(b))) <= len(encoded)+len("-base64"):
		q.Set(name, string(b))
	default:
		q.Set(name+"-base64", encoded)
	}
}

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// bytesOf decodes bytes from their JSON members, text or base64; nil if both are absent.
func bytesOf(text, encoded *string) ([]byte, error) {
	switch {
	case text != nil:
		return []byte(*text), nil
	case encoded != nil:
		b, err := base64.StdEncoding.AppendDecode([]byte{}, []byte(*encoded))
		if err != nil {
			return nil, &Error{Status: http.StatusOK, NextOffset: -1, Start: -1, Committed: -1, Err: err}
		}
		return b, nil
	}
	return nil, nil
}

func keyRecordOf(r *api.PartitionRecord) (KeyRecord, error) {
	out, err := contentOf(&r.Record)
	out.Offset, out.Timestamp = r.Offset, r.Timestamp
	return KeyRecord{Partition: r.Partition, Record: out}, err
}

// contentOf decodes the key, the value and the headers of a record.
func contentOf(r *api.Record) (out record.Record, err error) {
	var fault error
	out.Key, err = bytesOf(r.Key, r.KeyBase64)
	out.Value, fault = bytesOf(r.Value, r.ValueBase64)
	err = errors.Join(err, fault)
	for _, h := range r.Headers {
		value, fault := bytesOf(h.Value, h.ValueBase64)
		err = errors.Join(err, fault)
		out.Headers = append(out.Headers, record.Header{Key: h.Key, Value: value})
	}
	return out, err
}
