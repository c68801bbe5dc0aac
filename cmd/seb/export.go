package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/legacy"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/spf13/cobra"
)

// exportFlags are the flags of `seb export`.
type exportFlags struct {
	remote     remote
	to         string
	topic      string
	partition  int32
	fileBytes  int
	gzip       bool
	splitTimes bool
}

func newExport() *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export --topic NAME --to BUCKET",
		Short: "Write a topic as version-1 files",
		Long: `Writes the values of a topic's records as .record_batch files of version 1, named by their offsets, up to the topic's
end as it is now. Started again, it goes on behind what is there. Keys and headers have no place in these files, and each
file has one time: that of its first record.`,
		Example: "  seb export --topic orders --to ./old\n  seb export --topic orders --to 's3://old-bucket?region=eu-central-1' --split-times",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.remote.register(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.to, "to", "", "where to: a folder or s3://name/prefix?endpoint=URL&region=R&path-style=true")
	fl.StringVar(&f.topic, "topic", "", "the topic")
	fl.Int32VarP(&f.partition, "partition", "p", -1, "which partition, if the topic has several")
	fl.IntVar(&f.fileBytes, "file-bytes", 10<<20, "how much goes into a file; a larger record gets one for itself")
	fl.BoolVar(&f.gzip, "gzip", true, "compress the files, as the original does")
	fl.BoolVar(&f.splitTimes, "split-times", false, "begin a new file whenever the time changes, so that every record keeps its own")
	return cmd
}

func (f *exportFlags) run(cmd *cobra.Command) error {
	if f.to == "" || f.topic == "" || f.fileBytes <= 0 {
		return usageError{errors.New("--topic and --to have to be given, and --file-bytes be more than 0")}
	}
	if err := legacy.CheckTopic(f.topic); err != nil {
		return usageError{err}
	}
	spec, err := objstore.ParseSpec(folderSpec(f.to))
	if err == nil && spec.Kind == objstore.KindMemory {
		err = errors.New("nothing stays in memory")
	}
	if err != nil {
		return usageError{fmt.Errorf("--to: %w", err)}
	}
	c, err := f.remote.client(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	store, err := spec.Open(cmd.Context(), s3Keys())
	if err != nil {
		return usageError{fmt.Errorf("--to: %w", err)}
	}
	e := &exporting{
		exportFlags: f, client: c, store: store,
		say: func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) },
	}
	start := time.Now()
	if err := e.open(cmd.Context()); err != nil {
		return err
	}
	e.bar = progressCount(cmd.ErrOrStderr(), e.end-e.next, "export")
	err = e.all(cmd.Context())
	_ = e.bar.Finish()
	e.warn()
	if err != nil {
		return fmt.Errorf("after %d records in %d files: %w", e.written, e.files, err)
	}
	e.say("%d records written to %d files of %s, which end at offset %d, in %v", e.written, e.files, store, e.next, time.Since(start).Round(time.Millisecond))
	return nil
}

// exporting is one export under way.
type exporting struct {
	*exportFlags
	client *client.Client
	store  objstore.Store
	say    func(format string, args ...any)
	bar    *progressbar.ProgressBar

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
	t, err := e.client.Topic(ctx, e.topic)
	if err != nil {
		return fmt.Errorf("topic %s: %w", e.topic, err)
	}
	if e.partition < 0 {
		if len(t.Partitions) > 1 {
			return usageError{fmt.Errorf("topic %s has %d partitions, and a version-1 topic has one: choose with --partition", e.topic, len(t.Partitions))}
		}
		e.partition = 0
	}
	if int(e.partition) >= len(t.Partitions) {
		return usageError{fmt.Errorf("topic %s has %d partitions", e.topic, len(t.Partitions))}
	}
	p := &t.Partitions[e.partition]
	e.next, e.end = p.Start, p.Next
	l, err := legacy.List(ctx, e.store, e.topic)
	if err != nil {
		return err
	}
	if n := len(l.Files); n > 0 {
		return e.resume(ctx, l.Files[n-1].First, p)
	}
	if p.Start > 0 {
		e.say("warning: topic %s begins at offset %d: the files do too", e.topic, p.Start)
	}
	return nil
}

// resume goes on behind the last file, if that holds what the topic does.
func (e *exporting) resume(ctx context.Context, first int64, p *client.Partition) error {
	name := legacy.Name(e.topic, first)
	f, err := legacy.Read(ctx, e.store, e.topic, first)
	if err != nil {
		return fmt.Errorf("%s: the last file there: %w", name, err)
	}
	e.next = first + int64(f.Len())
	if e.next > e.end || e.next < p.Start {
		return fmt.Errorf("the files there end at offset %d, topic %s holds %d to %d: they are not of this topic", e.next, e.topic, p.Start, p.Next)
	}
	from := max(first, p.Start)
	if from >= e.next {
		return nil
	}
	for r, err := range e.client.Records(ctx, e.topic, client.ReadOptions{Partition: e.partition, Offset: from}) {
		if err != nil {
			return fmt.Errorf("read topic %s: %w", e.topic, err)
		}
		if r.Offset >= e.next {
			break
		}
		if string(r.Value) != string(f.Value(int(r.Offset-first))) {
			return fmt.Errorf("%s: %w than topic %s at offset %d", name, legacy.ErrDiffers, e.topic, r.Offset)
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
	for r, err := range e.client.Records(ctx, e.topic, client.ReadOptions{Partition: e.partition, Offset: at}) {
		if err != nil {
			return fmt.Errorf("read topic %s at offset %d: %w", e.topic, at, err)
		}
		if r.Offset >= e.end {
			break
		}
		if r.Offset != at {
			return errors.Join(e.flush(ctx), fmt.Errorf("the records at offsets %d to %d are gone: version-1 files have no place for gaps", at, r.Offset-1))
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
		return fmt.Errorf("topic %s gave no records from offset %d on: %w", e.topic, e.next, io.ErrUnexpectedEOF)
	}
	return nil
}

// fileRecords bounds the records of a file.
const fileRecords = 1 << 20

func (e *exporting) full(r *record.Record) bool {
	n := len(e.sizes)
	return n > 0 && (len(e.data)+len(r.Value) > e.fileBytes || n >= fileRecords || e.splitTimes && r.Timestamp != e.time)
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
	name := legacy.Name(e.topic, e.next)
	if err := legacy.Write(ctx, e.store, name, legacy.Batch{TimeMicros: e.time * 1000, Values: values, Gzipped: e.gzip}); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	e.next += int64(n)
	e.written += int64(n)
	e.files++
	_ = e.bar.Add(n)
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

// progressBytes is a bar of bytes on w if that is a terminal.
func progressBytes(w io.Writer, n int64, what string) *progressbar.ProgressBar {
	if !isTerminal(w) {
		return progressbar.DefaultBytesSilent(n)
	}
	return progressbar.NewOptions64(n, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
}

// progressCount is a bar of records on w if that is a terminal.
func progressCount(w io.Writer, n int64, what string) *progressbar.ProgressBar {
	if !isTerminal(w) {
		return progressbar.DefaultSilent(n)
	}
	return progressbar.NewOptions64(n, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish())
}
