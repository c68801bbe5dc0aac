// This file reads and writes the topics of version-1 buckets: one file per batch of records, named
// by the offset of its first record, and sometimes a file with all these offsets.
//
//	<topic>/%012d.record_batch          number: offset of the first record
//	<topic>/offsets_%012d.offsets       number: records before it
//
// FORMAT.md draws the layouts of the files.

package v1

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

// retryPause is the first pause between attempts of a request without a verdict.
const retryPause = 100 * time.Millisecond

const (
	batchSuffix   = ".record_batch"
	offsetsPrefix = "offsets_"
	offsetsSuffix = ".offsets"
)

// File is the name of a batch file.
type File struct {
	First int64 // offset of its first record
	Size  int64 // bytes as stored
}

// Listing is the content of a topic's folder.
type Listing struct {
	Files   []File // by First
	Bytes   int64  // of all Files
	Offsets string // name of the newest offsets file, "" if there is none
	// Nested is the number of objects in folders below: they belong to topics whose names begin
	// with this one's and a slash.
	Nested int
	// Unknown is the number of names that do not belong to a topic.
	Unknown int
}

// CheckTopic returns an error if a topic's name cannot be used to find its files.
func CheckTopic(topic string) error {
	if dir, base, nested := cutLast(topic); nested {
		return fmt.Errorf("topic %q: a name with slashes is not supported, because its files are below those of %q; set the folder instead: --from <bucket>/%s --topic %s", topic, dir, dir, base)
	}
	if !objstore.ValidKey(topic) {
		return fmt.Errorf("topic %q: want only letters, digits and . _ ~ -", topic)
	}
	if n := len(Name(topic, math.MaxInt64)) - objstore.KeyBytesMax; n > 0 {
		return fmt.Errorf("topic %q: too long by %d bytes: the names of its files are at most %d", topic, n, objstore.KeyBytesMax)
	}
	return nil
}

func cutLast(topic string) (dir, base string, nested bool) {
	i := strings.LastIndexByte(topic, '/')
	if i < 0 {
		return "", topic, false
	}
	return topic[:i], topic[i+1:], true
}

// Name returns the name of the batch file whose first record has an offset.
func Name(topic string, first int64) string {
	return fmt.Sprintf("%s/%012d%s", topic, first, batchSuffix)
}

// List lists a topic's files. It uses 16 bytes per file.
func List(ctx context.Context, store objstore.Store, topic string) (*Listing, error) {
	if err := CheckTopic(topic); err != nil {
		return nil, err
	}
	l := &Listing{}
	o := objstore.ListOptions{Prefix: topic + "/"}
	for {
		var entries []objstore.Entry
		var more bool
		err := objstore.Retry(ctx, retryPause, func() (err error) {
			entries, more, err = store.List(ctx, o)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", o.Prefix, err)
		}
		for _, e := range entries {
			l.add(topic, e)
		}
		if !more || len(entries) == 0 {
			break
		}
		o.After = entries[len(entries)-1].Key
	}
	// numbers may have more digits than the zero padding
	sorting.Sort(l.Files, func(a, b File) int { return int(max(-1, min(1, a.First-b.First))) })
	return l, nil
}

func (l *Listing) add(topic string, e objstore.Entry) {
	name := strings.TrimPrefix(e.Key, topic+"/")
	number, batch := strings.CutSuffix(name, batchSuffix)
	first, err := strconv.ParseInt(number, 10, 64)
	switch {
	case strings.Contains(name, "/"):
		l.Nested++
	case batch && err == nil && first >= 0 && Name(topic, first) == e.Key:
		l.Files = append(l.Files, File{First: first, Size: e.Size})
		l.Bytes += e.Size
	case strings.HasPrefix(name, offsetsPrefix) && strings.HasSuffix(name, offsetsSuffix):
		l.Offsets = max(l.Offsets, e.Key)
	default:
		l.Unknown++
	}
}

// Read reads and decodes a batch file. Errors: record.ErrCorrupt for a damaged file,
// objstore.ErrNotFound for a missing one.
func Read(ctx context.Context, store objstore.Store, topic string, first int64) (*BatchFile, error) {
	b, err := readAll(ctx, store, Name(topic, first))
	if err != nil {
		return nil, err
	}
	return Decode(b, 0)
}

// ReadOffsets reads an offsets file: the offset of the first record of every batch file at the time
// of writing.
func ReadOffsets(ctx context.Context, store objstore.Store, key string) ([]uint64, error) {
	b, err := readAll(ctx, store, key)
	if err != nil {
		return nil, err
	}
	f, err := DecodeOffsets(b)
	return f.Offsets, err
}

// ErrDiffers: a file with that name exists and has other content.
var ErrDiffers = errors.New("a file with this name exists and has other records")

// Write stores a batch file, in a gzip stream if gzipped; nil means that it is durable. An existing
// file with the same bytes is accepted; any other is ErrDiffers.
func Write(ctx context.Context, store objstore.Store, key string, f Batch) error {
	var b bytes.Buffer
	if err := Encode(&b, f.TimeMicros, f.Values, f.Gzipped); err != nil {
		return err
	}
	err := objstore.Retry(ctx, retryPause, func() error { return store.Put(ctx, key, objstore.NewBody(b.Bytes())) })
	if !errors.Is(err, objstore.ErrExists) {
		return err
	}
	there, err := readAll(ctx, store, key)
	if err == nil && !bytes.Equal(there, b.Bytes()) {
		err = fmt.Errorf("%s: %w", key, ErrDiffers)
	}
	return err
}

// Batch is the content of a batch file.
type Batch struct {
	TimeMicros int64
	Values     [][]byte
	Gzipped    bool
}

// fileMax bounds a stored file.
const fileMax = 1 << 30

func readAll(ctx context.Context, store objstore.Store, key string) (b []byte, err error) {
	err = objstore.Retry(ctx, retryPause, func() error {
		o, err := store.Get(ctx, key, objstore.Whole)
		if err != nil {
			return err
		}
		defer o.Body.Close()
		if o.Size > fileMax {
			return fmt.Errorf("%s: %d bytes: %w", key, o.Size, record.ErrTooLarge)
		}
		b, err = io.ReadAll(io.LimitReader(o.Body, fileMax))
		return err
	})
	return b, err
}
