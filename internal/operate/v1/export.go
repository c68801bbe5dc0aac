package v1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

// ExportOptions configure an export. Client, Topic, Store and FileBytes are required.
type ExportOptions struct {
	Client    *client.Client
	Topic     string
	Partition int32 // negative: the only one
	Store     objstore.Store
	FileBytes int // maximum bytes of a file; a larger record gets its own file
	Plain     bool
	// SplitTimes starts a new file whenever the time changes, because a file has one time.
	SplitTimes bool
	Reporter
}

// Exported is the result of an export.
type Exported struct {
	Records, Files int64 // written by this run
	Next           int64 // end offset of the files
}

// Export writes the values of a partition as version-1 files, up to the end that the partition has
// at the start. Each file is stored completely or not at all. The next export compares the last
// file with the topic and continues after it. A version-1 topic has no gaps: an export ends with an
// error at the first offset whose record compaction has removed, after the records before it.
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

// exporting is the state of an export.
type exporting struct {
	ExportOptions
	say      sayFunc
	progress func(n int64)

	next, end int64 // offsets to write
	written   int64
	files     int64

	// The current file, with its values in data.
	data                        []byte
	sizes                       []int
	time                        int64 // ms
	keys, headers, nulls, times int64 // number of records that lose something
}

// open finds the first offset to write.
func (e *exporting) open(ctx context.Context) error {
	t, err := e.Client.Topic(ctx, e.Topic)
	if err != nil {
		return fmt.Errorf("topic %s: %w", e.Topic, err)
	}
	if e.Partition < 0 {
		if len(t.Partitions) > 1 {
			return fmt.Errorf("topic %s has %d partitions, but a version-1 topic has one: select one with --partition", e.Topic, len(t.Partitions))
		}
		e.Partition = 0
	}
	if int(e.Partition) >= len(t.Partitions) {
		return fmt.Errorf("topic %s has %d partitions", e.Topic, len(t.Partitions))
	}
	if strings.HasPrefix(t.Settings["cleanup-policy"], "compact") {
		e.say("warning: topic %s is compacted, and the files cannot have gaps: the export ends at the first one", e.Topic)
	}
	p := &t.Partitions[e.Partition]
	if e.next, e.end = p.Start, p.Next; p.LastStable > 0 { // 0: also of a broker without transactions
		e.end = p.LastStable
	}
	l, err := List(ctx, e.Store, e.Topic)
	if err != nil {
		return err
	}
	if n := len(l.Files); n > 0 {
		return e.resume(ctx, l.Files[n-1].First, p)
	}
	if p.Start > 0 {
		e.say("warning: topic %s starts at offset %d, and so do the files", e.Topic, p.Start)
	}
	return nil
}

// resume continues after the last file, if its records match the topic.
func (e *exporting) resume(ctx context.Context, first int64, p *client.Partition) error {
	name := Name(e.Topic, first)
	f, err := Read(ctx, e.Store, e.Topic, first)
	if err != nil {
		return fmt.Errorf("%s: last existing file: %w", name, err)
	}
	e.next = first + int64(f.Len())
	if e.next > e.end || e.next < p.Start {
		return fmt.Errorf("the existing files end at offset %d, but topic %s has offsets %d to %d: they belong to another topic", e.next, e.Topic, p.Start, p.Next)
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
	at := e.next // offset of the next record
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

// gap is the error at offsets without records: the files would assign them to other records.
func (e *exporting) gap(from, to int64) error {
	return fmt.Errorf("partition %d of topic %s has no records at offsets %d to %d, because compaction removed them or they belong to a transaction, and version-1 files cannot have gaps; `seb consume --format json` prints the remaining records",
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

// flush writes the current file.
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

// warn reports the data that the files cannot store.
func (e *exporting) warn() {
	for _, w := range []struct {
		n    int64
		what string
	}{
		{e.keys, "lost their key"},
		{e.headers, "lost their headers"},
		{e.nulls, "had no value, and now have an empty one"},
		{e.times, "got the time of the first record of their file: --split-times keeps their own"},
	} {
		if w.n > 0 {
			e.say("warning: %d records %s", w.n, w.what)
		}
	}
}

// oldTopic reads the files of a topic in order.
type oldTopic struct {
	store    objstore.Store
	topic    string
	skip     bool
	say      sayFunc
	progress func(n int64)

	list     *Listing
	at       int   // next file
	expected int64 // offset of its first record; -1 after a skipped file
	skipped  int   // number of files and gaps
}

func (o *oldTopic) open(ctx context.Context) error {
	var err error
	if o.list, err = List(ctx, o.store, o.topic); err != nil {
		return err
	}
	if len(o.list.Files) == 0 {
		if o.list.Nested > 0 {
			return fmt.Errorf("%s: no files of topic %s, only %d in folders below it: a name with slashes is not supported; set the folder with --from", o.store, o.topic, o.list.Nested)
		}
		return fmt.Errorf("%s: no files of topic %s", o.store, o.topic)
	}
	if o.list.Nested > 0 {
		o.say("warning: %d objects in folders below %s/ belong to other topics and are ignored", o.list.Nested, o.topic)
	}
	if o.list.Offsets == "" {
		return nil
	}
	named, err := ReadOffsets(ctx, o.store, o.list.Offsets)
	if errors.Is(err, record.ErrCorrupt) {
		o.say("warning: %s is damaged, but not needed: %v", o.list.Offsets, err)
		return nil
	}
	if err != nil {
		return err
	}
	return o.compare(named)
}

// compare checks that every file in the offsets file exists.
func (o *oldTopic) compare(named []uint64) error {
	i := 0
	for _, first := range named {
		for i < len(o.list.Files) && uint64(o.list.Files[i].First) < first {
			i++
		}
		if i < len(o.list.Files) && uint64(o.list.Files[i].First) == first {
			continue
		}
		err := fmt.Errorf("%s is missing, but listed in %s: %w", Name(o.topic, int64(first)), o.list.Offsets, record.ErrCorrupt)
		if !o.skip {
			return err
		}
		o.skipped++
		o.say("damage skipped: %v", err)
	}
	return nil
}

// seek moves to the file with an offset and returns the offset of its first record. After skipped
// files it must count from the beginning.
func (o *oldTopic) seek(ctx context.Context, offset int64) (int64, error) {
	if o.skip {
		return 0, nil
	}
	for o.at+1 < len(o.list.Files) && o.list.Files[o.at+1].First <= offset {
		o.progress(o.list.Files[o.at].Size)
		o.at++
	}
	if o.at > 0 {
		o.expected = o.list.Files[o.at].First
	}
	return o.expected, nil
}

// next reads the next file; io.EOF after the last.
func (o *oldTopic) next(ctx context.Context) (*BatchFile, error) {
	for o.at < len(o.list.Files) {
		f := o.list.Files[o.at]
		name := Name(o.topic, f.First)
		o.at++
		o.progress(f.Size)
		if o.expected >= 0 && f.First != o.expected {
			if err := o.skipDamage(o.gap(f.First)); err != nil {
				return nil, err
			}
		}
		file, err := Read(ctx, o.store, o.topic, f.First)
		switch {
		case errors.Is(err, record.ErrCorrupt), errors.Is(err, record.ErrTooLarge), errors.Is(err, objstore.ErrNotFound):
			o.expected = -1
			if err := o.skipDamage(fmt.Errorf("%s, records from offset %d on: %w", name, f.First, errors.Join(err, record.ErrCorrupt))); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		o.expected = f.First + int64(file.Len())
		return file, nil
	}
	return nil, io.EOF
}

// gap returns the error in the offset of the next file.
func (o *oldTopic) gap(first int64) error {
	if first > o.expected {
		return fmt.Errorf("the records at offsets %d to %d are in no file: the next is %s: %w", o.expected, first-1, Name(o.topic, first), record.ErrCorrupt)
	}
	return fmt.Errorf("%s overlaps the file before it, which ends at offset %d: %w", Name(o.topic, first), o.expected, record.ErrCorrupt)
}

// skipDamage returns an error unless damage is to be skipped.
func (o *oldTopic) skipDamage(err error) error {
	if !o.skip {
		return fmt.Errorf("%w: --skip-damaged continues after it, but the following offsets are then not kept", err)
	}
	o.skipped++
	o.say("damage skipped, offsets are not kept: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	return nil
}
