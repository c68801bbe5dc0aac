package seb

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/views/keyindex"
	"github.com/sebbroker/seb/record"
)

// Errors of the calls by key, in addition to those of a fetch. Callers may test for them with
// errors.Is.
var (
	// The key has no record, or its newest record is a tombstone.
	ErrKeyNotFound = errors.New("the key has no record")
	// The topic's setting key-index is off.
	ErrKeyIndexOff = keyindex.ErrNotIndexed
	// The broker cannot write the file of the key index.
	ErrKeyIndexUnavailable = keyindex.ErrUnavailable
)

type (
	// KeyRecord is a record of a key. The caller may keep it.
	KeyRecord = record.KeyRecord
	// KeyEntry is a key with the position of its newest record. The caller may keep it.
	KeyEntry = record.KeyEntry
)

// KeyHistoryOptions select the records that KeyHistory returns.
type KeyHistoryOptions struct {
	Partition   *int32 // nil: all
	OldestFirst bool
}

const (
	keysPage    = 1000
	historyPage = 100
	// staleMax bounds the index entries without a record that Key skips before it reports
	// ErrKeyNotFound.
	staleMax = 8
)

// Key returns the newest record of a key in a topic with a key index. If several partitions have
// the key, it returns the record with the highest timestamp. Key, Keys and KeyHistory first wait
// until the index has every record that was committed before the call; ctx bounds the wait. Errors:
// ErrKeyNotFound, ErrKeyIndexOff, ErrUnknownTopic, and those of Fetch.
func (b *Broker) Key(ctx context.Context, topic string, key []byte) (KeyRecord, error) {
	info, err := b.indexed(ctx, topic)
	if err != nil {
		return KeyRecord{}, err
	}
	for stale := range staleMax {
		e, ok, err := b.n.Keys().Get(ctx, info.ID, key, -1)
		if err != nil {
			return KeyRecord{}, keyError(err)
		}
		if !ok || e.Deleted {
			break
		}
		r, there, err := b.recordAt(ctx, topic, &e)
		if err != nil || there {
			return r, err
		}
		// Compaction keeps the newest record of a key, so a missing record means that the index is
		// behind.
		if stale == 0 {
			info, err = b.indexed(ctx, topic)
		} else {
			err = b.forget(ctx, &info, e)
		}
		if err != nil {
			return KeyRecord{}, err
		}
	}
	return KeyRecord{}, ErrKeyNotFound
}

// Keys returns the keys of a topic that begin with prefix and have a value, in byte order. A key
// that has a value throughout the call appears exactly once, even while records are written. An
// error is the last element.
func (b *Broker) Keys(ctx context.Context, topic string, prefix []byte) iter.Seq2[KeyEntry, error] {
	return func(yield func(KeyEntry, error) bool) {
		info, err := b.indexed(ctx, topic)
		q := keyindex.ListQuery{Prefix: prefix, Limit: keysPage}
		for err == nil {
			var page []keyindex.Entry
			if page, err = b.n.Keys().List(ctx, info.ID, q); len(page) == 0 {
				break
			}
			for _, e := range page {
				if !yield(KeyEntry{Key: e.Key, Partition: int32(e.Partition), Offset: e.Offset, Timestamp: e.Timestamp}, nil) {
					return
				}
			}
			q.After = page[len(page)-1].Key
		}
		if err != nil {
			yield(KeyEntry{}, keyError(err))
		}
	}
}

// KeyHistory returns all readable records of a key, tombstones (with a nil Value) included. It
// returns the newest record first, unless OldestFirst is set. Records of one partition are in
// offset order. An error is the last element. The history of an unknown key is empty.
func (b *Broker) KeyHistory(ctx context.Context, topic string, key []byte, o KeyHistoryOptions) iter.Seq2[KeyRecord, error] {
	return func(yield func(KeyRecord, error) bool) {
		info, err := b.indexed(ctx, topic)
		q := keyindex.HistoryQuery{Partition: -1, NewestFirst: !o.OldestFirst, Limit: historyPage}
		if o.Partition != nil {
			q.Partition = int(*o.Partition)
		}
		for more := true; err == nil && more; {
			var page []keyindex.Entry
			if page, err = b.n.Keys().History(ctx, info.ID, key, q); err != nil {
				break
			}
			var stopped bool
			if stopped, err = b.each(ctx, &info, page, yield); stopped {
				return
			}
			if more = len(page) == q.Limit; more {
				last := &page[len(page)-1]
				q.After = &keyindex.RecordID{Partition: last.Partition, Offset: last.Offset}
			}
		}
		if err != nil {
			yield(KeyRecord{}, keyError(err))
		}
	}
}

// each yields the records of entries, and removes entries without a record from the index.
func (b *Broker) each(ctx context.Context, info *broker.TopicInfo, page []keyindex.Entry, yield func(KeyRecord, error) bool) (stopped bool, err error) {
	var gone []keyindex.Entry
	for i := range page {
		r, there, err := b.recordAt(ctx, info.Name, &page[i])
		switch {
		case err != nil:
			return false, err
		case !there:
			gone = append(gone, page[i])
		case !yield(r, nil):
			return true, nil
		}
	}
	return false, b.forget(ctx, info, gone...)
}

// indexed describes a topic once the key index has every record that is committed now.
func (b *Broker) indexed(ctx context.Context, topic string) (broker.TopicInfo, error) {
	info, err := b.n.Topic(ctx, topic, false)
	if err != nil {
		return info, err
	}
	for i, p := range info.Partitions {
		if p.Next == p.Start {
			continue
		}
		if err := b.n.Keys().WaitFor(ctx, info.ID, uint32(i), p.Next-1); err != nil {
			return info, keyError(err)
		}
	}
	return info, nil
}

// recordAt reads the record of an entry; there is false if it was removed.
func (b *Broker) recordAt(ctx context.Context, topic string, e *keyindex.Entry) (r KeyRecord, there bool, err error) {
	f, err := b.Fetch(ctx, topic, FetchOptions{Partition: int32(e.Partition), Offset: e.Offset, MaxBytes: 1})
	if errors.Is(err, ErrBelowStart) || errors.Is(err, ErrUnknownPartition) {
		return r, false, nil
	}
	if err != nil {
		return r, false, err
	}
	defer f.Close()
	for found, err := range f.All() {
		if err != nil {
			return r, false, err
		}
		if found.Offset >= e.Offset {
			if there = found.Offset == e.Offset && bytes.Equal(found.Key, e.Key); there {
				r = KeyRecord{Partition: int32(e.Partition), Record: cloned(found)}
			}
			break
		}
	}
	return r, there, nil
}

// cloned returns a deep copy of a record.
func cloned(r *record.Record) record.Record {
	c := *r
	c.Key, c.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
	c.Headers = slices.Clone(r.Headers)
	for i, h := range c.Headers {
		c.Headers[i] = record.Header{Key: strings.Clone(h.Key), Value: bytes.Clone(h.Value)}
	}
	return c
}

func (b *Broker) forget(ctx context.Context, info *broker.TopicInfo, gone ...keyindex.Entry) error {
	return keyError(b.n.Keys().Forget(ctx, info.ID, gone))
}

// keyError maps an error of the key index to one of this package.
func keyError(err error) error {
	switch {
	case errors.Is(err, keyindex.ErrClosed):
		return ErrClosed
	case errors.Is(err, keyindex.ErrInvalid):
		return ErrUnknownPartition
	}
	return err
}
