package migration

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sebbroker/seb/client"

	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
)

// ExportOptions say what is exported. Client, Topic, Store and FileBytes must be set.
type ExportOptions struct {
	Client    *client.Client
	Topic     string
	Partition int32 // negative: the only one
	Store     objstore.Store
	FileBytes int // how much goes into a file; a larger record gets one for itself
	Plain     bool
	// SplitTimes begins a new file whenever the time changes: a file has one time.
	SplitTimes bool
	Reporter
}

// Exported is what an export has done.
type Exported struct {
	Records, Files int64 // written by this run
	Next           int64 // where the files end
}

// Export writes the values of a partition as version-1 files, up to its end when it begins. Each file is stored whole or
// not at all; the next export compares the last file with the topic and goes on behind it. A version-1 topic has no gaps: an
// export ends with an error at the first offset whose record compaction has removed, behind what it could write.
func Export(ctx context.Context, o ExportOptions) (Exported, error) {
	e := &exporting{ExportOptions: o, say: o.sayFunc()}
	err := e.open(ctx)
	if err == nil {
		e.progress = o.start(e.end - e.next)
		err = e.all(ctx)
		e.warn()
	}
	return Exported{Records: e.written, Files: e.files, Next: e.next}, err
}

// exporting is one export under way.
type exporting struct {
	ExportOptions
	say      sayFunc
	progress func(n int64)

	next, end int64 // offsets that are to be written
	written   int64
	files     int64

	// The file that is being filled: values are kept in data.
	data                        []byte
	sizes                       []int
	time                        int64 // ms
	keys, headers, nulls, times int64 // records that lose something
}

// open finds out where to begin.
func (e *exporting) open(ctx context.Context) error {
	t, err := e.Client.Topic(ctx, e.Topic)
	if err != nil {
		return fmt.Errorf("topic %s: %w", e.Topic, err)
	}
	if e.Partition < 0 {
		if len(t.Partitions) > 1 {
			return fmt.Errorf("topic %s has %d partitions, and a version-1 topic has one: choose with --partition", e.Topic, len(t.Partitions))
		}
		e.Partition = 0
	}
	if int(e.Partition) >= len(t.Partitions) {
		return fmt.Errorf("topic %s has %d partitions", e.Topic, len(t.Partitions))
	}
	if strings.HasPrefix(t.Settings["cleanup-policy"], "compact") {
		e.say("warning: topic %s is compacted, and the files have no place for gaps: they can go no further than to the first", e.Topic)
	}
	p := &t.Partitions[e.Partition]
	e.next, e.end = p.Start, p.Next
	l, err := List(ctx, e.Store, e.Topic)
	if err != nil {
		return err
	}
	if n := len(l.Files); n > 0 {
		return e.resume(ctx, l.Files[n-1].First, p)
	}
	if p.Start > 0 {
		e.say("warning: topic %s begins at offset %d: the files do too", e.Topic, p.Start)
	}
	return nil
}

// resume goes on behind the last file, if that holds what the topic does.
func (e *exporting) resume(ctx context.Context, first int64, p *client.Partition) error {
	name := Name(e.Topic, first)
	f, err := Read(ctx, e.Store, e.Topic, first)
	if err != nil {
		return fmt.Errorf("%s: the last file there: %w", name, err)
	}
	e.next = first + int64(f.Len())
	if e.next > e.end || e.next < p.Start {
		return fmt.Errorf("the files there end at offset %d, topic %s holds %d to %d: they are not of this topic", e.next, e.Topic, p.Start, p.Next)
	}
	from := max(first, p.Start)
	if from >= e.next {
		return nil
	}
	for r, err := range e.Client.Records(ctx, e.Topic, client.ReadOptions{Partition: e.Partition, Offset: from}) {
		if err != nil {
			return fmt.Errorf("read topic %s: %w", e.Topic, err)
		}
		if r.Offset >= e.next {
			break
		}
		if string(r.Value) != string(f.Value(int(r.Offset-first))) {
			return fmt.Errorf("%s: %w than topic %s at offset %d", name, ErrDiffers, e.Topic, r.Offset)
		}
	}
	return nil
}

// all writes files up to the end.
func (e *exporting) all(ctx context.Context) error {
	at := e.next // offset of the next record to come
	if at == e.end {
		return nil
	}
	for r, err := range e.Client.Records(ctx, e.Topic, client.ReadOptions{Partition: e.Partition, Offset: at}) {
		if err != nil {
			return fmt.Errorf("read topic %s at offset %d: %w", e.Topic, at, err)
		}
		if r.Offset >= e.end {
			break
		}
		if r.Offset != at {
			return errors.Join(e.flush(ctx), e.gap(at, r.Offset))
		}
		if e.full(r) {
			if err := e.flush(ctx); err != nil {
				return err
			}
		}
		e.add(r)
		at++
	}
	if err := e.flush(ctx); err != nil {
		return err
	}
	if e.next != e.end {
		return e.gap(e.next, e.end)
	}
	return nil
}

// gap is the refusal to go on behind offsets that have no records any more: the files would give them to others.
func (e *exporting) gap(from, to int64) error {
	return fmt.Errorf("partition %d of topic %s has no records at offsets %d to %d, compaction has removed them, and version-1 files have no place for gaps; `seb consume --format json` prints what is left",
		e.Partition, e.Topic, from, to-1)
}

// fileRecords bounds the records of a file.
const fileRecords = 1 << 20

func (e *exporting) full(r *record.Record) bool {
	n := len(e.sizes)
	return n > 0 && (len(e.data)+len(r.Value) > e.FileBytes || n >= fileRecords || e.SplitTimes && r.Timestamp != e.time)
}

func (e *exporting) add(r *record.Record) {
	if len(e.sizes) == 0 {
		e.time = r.Timestamp
	}
	if r.Key != nil {
		e.keys++
	}
	if len(r.Headers) > 0 {
		e.headers++
	}
	if r.Value == nil {
		e.nulls++
	}
	if r.Timestamp != e.time {
		e.times++
	}
	e.data = append(e.data, r.Value...)
	e.sizes = append(e.sizes, len(r.Value))
}

// flush writes the file.
func (e *exporting) flush(ctx context.Context) error {
	n := len(e.sizes)
	if n == 0 {
		return nil
	}
	values, rest := make([][]byte, n), e.data
	for i, size := range e.sizes {
		values[i], rest = rest[:size], rest[size:]
	}
	name := Name(e.Topic, e.next)
	if err := Write(ctx, e.Store, name, Batch{TimeMicros: e.time * 1000, Values: values, Gzipped: !e.Plain}); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	e.next += int64(n)
	e.written += int64(n)
	e.files++
	e.progress(int64(n))
	e.data, e.sizes = e.data[:0], e.sizes[:0]
	return nil
}

// warn says what the files have no place for.
func (e *exporting) warn() {
	for _, w := range []struct {
		n    int64
		what string
	}{
		{e.keys, "had a key, which is left out"},
		{e.headers, "had headers, which are left out"},
		{e.nulls, "had no value, and have an empty one now"},
		{e.times, "had another time than the first of their file, and have its time now: --split-times keeps them"},
	} {
		if w.n > 0 {
			e.say("warning: %d records %s", w.n, w.what)
		}
	}
}
