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

// Seen says what a read of keys must have seen. The broker's index of keys follows the log a moment behind.
type Seen struct {
	// MinOffset, if not nil, waits until the index has the record at this offset: what Produce returned, to read what one
	// has written. ErrKeyIndexBehind if that takes longer than Wait.
	MinOffset *int64
	// Wait is how long to wait; 0 means 10 seconds, more than 5 minutes is 5 minutes.
	Wait time.Duration
}

// KeyOptions say which records of a key Key looks at.
type KeyOptions struct {
	Partition *int32 // nil: all; MinOffset is then of the partition to which the key belongs
	Seen
}

// KeysOptions say which keys Keys gives.
type KeysOptions struct {
	Prefix   []byte // only keys that begin so
	After    []byte // only keys behind this one; nil: from the first
	PageSize int    // how many are asked for at once, at most 10,000; 0 means 1000
	// Partition is that of MinOffset; it may be nil if the topic has only one.
	Partition *int32
	Seen
}

// KeyHistoryOptions say which records of a key KeyHistory gives.
type KeyHistoryOptions struct {
	Partition   *int32 // nil: all; MinOffset is then of the partition to which the key belongs
	OldestFirst bool
	PageSize    int // how many are asked for at once, at most 10,000; 0 means 100
	Seen
}

const (
	keysPageDefault    = 1000
	historyPageDefault = 100
)

type (
	// KeyRecord is a record of a key. It is the caller's to keep.
	KeyRecord = record.KeyRecord
	// KeyEntry is a key and where its newest record is. It is the caller's to keep.
	KeyEntry = record.KeyEntry
)

// Key returns the newest record of a key in a topic whose key index is on. An empty key is one, nil is not.
// ErrKeyNotFound if there is none, or it is a tombstone; ErrKeyIndexOff; ErrKeyIndexBehind.
func (c *Client) Key(ctx context.Context, topic string, key []byte, o KeyOptions) (KeyRecord, error) {
	q, err := keyQuery(topic, key, o.Partition, &o.Seen)
	if err != nil {
		return KeyRecord{}, err
	}
	var r api.PlacedRecord
	if err := c.call(ctx, &request{method: http.MethodGet, path: "/key", query: q}, &r); err != nil {
		return KeyRecord{}, err
	}
	return keyRecordOf(&r)
}

// Keys lists the keys of a topic that have a value, in the order of their bytes, a page at a time. A key that has one all
// the while comes exactly once, whatever is written meanwhile. An error comes last.
func (c *Client) Keys(ctx context.Context, topic string, o KeysOptions) iter.Seq2[KeyEntry, error] {
	return func(yield func(KeyEntry, error) bool) {
		q := url.Values{"topic-name": {topic}, "limit": {strconv.Itoa(orDefault(o.PageSize, keysPageDefault))}}
		setPartition(q, o.Partition)
		o.Seen.set(q)
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

// KeyHistory gives the records of a key that are there, tombstones (with a nil Value) too, the newest first unless told
// otherwise. Those of one partition come by offset. An error comes last. A key without records has an empty history.
func (c *Client) KeyHistory(ctx context.Context, topic string, key []byte, o KeyHistoryOptions) iter.Seq2[KeyRecord, error] {
	return func(yield func(KeyRecord, error) bool) {
		q, err := keyQuery(topic, key, o.Partition, &o.Seen)
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

// keyQuery is what requests about one key have.
func keyQuery(topic string, key []byte, partition *int32, s *Seen) (url.Values, error) {
	if key == nil {
		return nil, &Error{NextOffset: -1, Start: -1, Committed: -1, Err: errors.New("no key: an empty one is not nil")}
	}
	q := url.Values{"topic-name": {topic}}
	setBytes(q, "key", key)
	setPartition(q, partition)
	s.set(q)
	return q, nil
}

func (s *Seen) set(q url.Values) {
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

// setBytes sets a parameter, as text or in base64, whichever is shorter; nothing if b is nil.
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

// bytesOf reads bytes from JSON, where they are text or base64; nil if they are neither.
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

func keyRecordOf(r *api.PlacedRecord) (KeyRecord, error) {
	out := KeyRecord{Partition: r.Partition, Record: record.Record{Offset: r.Offset, Timestamp: r.Timestamp}}
	var err, fault error
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
