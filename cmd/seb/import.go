package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/legacy"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/spf13/cobra"
)

// importFlags are the flags of `seb import`.
type importFlags struct {
	remote      remote
	from        string
	topic, as   string
	skipDamaged bool
}

func newImport() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import --from BUCKET --topic NAME",
		Short: "Take over a topic of a version-1 bucket",
		Long: `Sends the records of a topic's .record_batch files to a broker, in order, with their offsets and with the time of their
file. The topic there has to be empty or missing. An import that was interrupted goes on where it stopped when it is
started again: what is there already is compared, and nothing is sent twice.

Damaged and missing files are named and end the import; --skip-damaged goes on behind them, and then the offsets of what
follows are smaller than they were.`,
		Example: "  seb import --from 's3://old-bucket?region=eu-central-1' --topic orders\n  seb import --from ./old --topic orders --as old-orders",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.remote.register(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.from, "from", "", "the version-1 bucket: a folder or s3://name/prefix?endpoint=URL&region=R&path-style=true")
	fl.StringVar(&f.topic, "topic", "", "the topic in it")
	fl.StringVar(&f.as, "as", "", "name of the topic in the broker (default: the same)")
	fl.BoolVar(&f.skipDamaged, "skip-damaged", false, "leave out damaged and missing files; offsets are not kept")
	return cmd
}

// folderSpec lets a folder be named without ./ before it.
func folderSpec(name string) string {
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, ":") || strings.HasPrefix(name, "/") {
		return name
	}
	return "./" + name
}

func (f *importFlags) run(cmd *cobra.Command) error {
	if f.from == "" || f.topic == "" {
		return usageError{errors.New("--from and --topic have to be given")}
	}
	if f.as == "" {
		f.as = f.topic
	}
	if err := legacy.CheckTopic(f.topic); err != nil {
		return usageError{err}
	}
	store, err := openExisting(cmd, "from", folderSpec(f.from))
	if err != nil {
		return err
	}
	c, err := f.remote.client(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	i := &importing{
		old: &oldTopic{store: store, topic: f.topic, skip: f.skipDamaged}, client: c, topic: f.as,
		say: func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) },
	}
	i.old.say = i.say
	start := time.Now()
	if err := i.open(cmd.Context()); err != nil {
		return err
	}
	bar := progressBytes(cmd.ErrOrStderr(), i.old.list.Bytes, "import")
	i.old.progress = func(n int64) { _ = bar.Add64(n) }
	err = i.all(cmd.Context())
	_ = bar.Finish()
	if err != nil {
		return fmt.Errorf("after %d records that are stored in %s: %w", i.sent, i.topic, err)
	}
	i.say("%d records stored in %s, which ends at offset %d, in %v%s", i.sent, i.topic, i.next, time.Since(start).Round(time.Millisecond), i.old.left())
	return nil
}

// importing is one import under way.
type importing struct {
	old    *oldTopic
	client *client.Client
	topic  string
	say    func(format string, args ...any)

	begin    int64 // the topic's end when the import began: what is before it is compared
	next     int64 // offset that the next record gets
	batchMax int   // the topic's max-batch-bytes
	sent     int64
	there    []fingerprint // the last records before begin
	chunk    []record.Record
	bytes    int
}

const (
	// compared is how many records before the topic's end are compared with the files when an import goes on.
	compared = 200
	// maxBatchBytesDefault is a topic's max-batch-bytes when it is not set.
	maxBatchBytesDefault = 1_048_588
)

// open finds out where to go on.
func (i *importing) open(ctx context.Context) error {
	if err := i.old.open(ctx); err != nil {
		return err
	}
	t, err := i.client.Topic(ctx, i.topic)
	if errors.Is(err, client.ErrUnknownTopic) {
		t, err = i.client.CreateTopic(ctx, i.topic, client.TopicSpec{Partitions: 1})
	}
	if err != nil {
		return fmt.Errorf("topic %s: %w", i.topic, err)
	}
	if n := len(t.Partitions); n != 1 {
		return fmt.Errorf("topic %s has %d partitions: only one with a single partition can keep the order and the offsets; choose another name with --as", i.topic, n)
	}
	if t.Settings["timestamp-type"] == "LogAppendTime" {
		i.say("warning: topic %s has timestamp-type=LogAppendTime: the times of the files are not kept", i.topic)
	}
	i.batchMax = maxBatchBytesDefault
	if v, set := t.Settings["max-batch-bytes"]; set {
		if _, err := fmt.Sscan(v, &i.batchMax); err != nil {
			return fmt.Errorf("max-batch-bytes of topic %s: %w", i.topic, err)
		}
	}
	p := &t.Partitions[0]
	i.begin, i.next = p.Next, p.Next
	if i.begin == 0 {
		return nil
	}
	if p.Start == p.Next {
		return fmt.Errorf("topic %s is not empty, and its records are gone: they can not be compared with the files; choose another name with --as", i.topic)
	}
	from := max(p.Start, i.begin-compared)
	for r, err := range i.client.Records(ctx, i.topic, client.ReadOptions{Offset: from}) {
		if err != nil {
			return fmt.Errorf("read what is in topic %s: %w", i.topic, err)
		}
		if r.Offset < i.begin {
			i.there = append(i.there, printOf(r))
		}
	}
	if int64(len(i.there)) != i.begin-from {
		return i.notOurs(from)
	}
	return nil
}

// notOurs is the refusal to write to a topic that holds something else.
func (i *importing) notOurs(offset int64) error {
	return fmt.Errorf("topic %s is not empty, and at offset %d it does not hold what the files do: it is not the beginning of this import; choose another name with --as", i.topic, offset)
}

// all sends every record that is not there yet.
func (i *importing) all(ctx context.Context) error {
	first := i.begin - int64(len(i.there)) // of those that are compared
	at, err := i.old.seek(ctx, first)
	if err != nil {
		return err
	}
	for {
		f, err := i.old.next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			return i.flushThen(ctx, err)
		}
		for n := range f.Len() {
			r := record.Record{Timestamp: floorMillis(f.Time), Value: f.Value(n)}
			switch {
			case at >= i.begin:
				if err := i.add(ctx, r); err != nil {
					return err
				}
			case at >= first && i.there[at-first] != printOf(&r):
				return i.notOurs(at)
			}
			at++
		}
	}
	if at < i.begin {
		return fmt.Errorf("topic %s ends at offset %d, and the files at %d: it holds more than this import", i.topic, i.begin, at)
	}
	return i.flush(ctx)
}

// flushThen stores what was collected before an error ends the import.
func (i *importing) flushThen(ctx context.Context, err error) error {
	if sendErr := i.flush(ctx); sendErr != nil {
		return fmt.Errorf("%w (and then: %w)", err, sendErr)
	}
	return err
}

func floorMillis(micros int64) int64 {
	ms := micros / 1000
	if micros%1000 < 0 {
		ms--
	}
	return ms
}

func (i *importing) add(ctx context.Context, r record.Record) error {
	if len(i.chunk) > 0 && i.bytes+len(r.Value) > chunkBytes || len(i.chunk) >= chunkRecords {
		if err := i.flush(ctx); err != nil {
			return err
		}
	}
	i.chunk = append(i.chunk, r)
	i.bytes += len(r.Value)
	return nil
}

// flush stores the chunk at just the offsets it has to have.
func (i *importing) flush(ctx context.Context) error {
	if len(i.chunk) == 0 {
		return nil
	}
	data, _, err := record.Append(nil, i.chunk, record.EncodeOptions{})
	if err != nil {
		return err
	}
	if err := i.makeRoom(ctx, data); err != nil {
		return err
	}
	n := int64(len(i.chunk))
	end := time.Now().Add(retryTime)
	for {
		// The condition on the offset makes a repetition harmless, whatever came of the attempt before.
		_, err := i.client.ProduceBatches(ctx, i.topic, data, client.ProduceOptions{ExpectedOffset: &i.next})
		if err == nil {
			break
		}
		var e *client.Error
		if errors.As(err, &e) && errors.Is(err, client.ErrOffsetMismatch) {
			if e.NextOffset < i.next+n {
				return fmt.Errorf("somebody else writes to topic %s: %w", i.topic, err)
			}
			if err := i.compare(ctx); err != nil {
				return err
			}
			break
		}
		if !errors.Is(err, client.ErrOutcomeUnknown) || ctx.Err() != nil || time.Now().After(end) {
			return fmt.Errorf("offset %d: %w", i.next, err)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	i.next += n
	i.sent += n
	clear(i.chunk)
	i.chunk, i.bytes = i.chunk[:0], 0
	return nil
}

// compare makes sure that an attempt without an answer has stored the chunk.
func (i *importing) compare(ctx context.Context) error {
	at := 0
	for r, err := range i.client.Records(ctx, i.topic, client.ReadOptions{Offset: i.next}) {
		if err != nil {
			return err
		}
		if printOf(r) != printOf(&i.chunk[at]) {
			return i.notOurs(r.Offset)
		}
		if at++; at == len(i.chunk) {
			return nil
		}
	}
	return i.notOurs(i.next + int64(at))
}

// makeRoom lets the topic take a record that is larger than a batch may be.
func (i *importing) makeRoom(ctx context.Context, data []byte) error {
	largest := 0
	for rest := data; len(rest) > 0; {
		b, more, err := record.Split(rest)
		if err != nil {
			return err
		}
		largest, rest = max(largest, b.Len()), more
	}
	if largest <= i.batchMax {
		return nil
	}
	i.say("a record takes a batch of %d bytes: max-batch-bytes of topic %s becomes that", largest, i.topic)
	if _, err := i.client.UpdateTopic(ctx, i.topic, client.TopicSpec{Settings: map[string]string{"max-batch-bytes": fmt.Sprint(largest)}}); err != nil {
		return fmt.Errorf("a record of %d bytes: %w", largest, err)
	}
	i.batchMax = largest
	return nil
}

// fingerprint tells records apart without holding them.
type fingerprint struct {
	time int64
	size int
	crc  uint32
	rest bool // has a key or headers, or no value: no record of an import
}

func printOf(r *record.Record) fingerprint {
	return fingerprint{r.Timestamp, len(r.Value), record.CRC32C(r.Value), r.Key != nil || len(r.Headers) > 0 || r.Value == nil}
}

// oldTopic reads the files of a topic in order.
type oldTopic struct {
	store    objstore.Store
	topic    string
	skip     bool
	say      func(format string, args ...any)
	progress func(bytes int64)

	list     *legacy.Listing
	at       int   // next file
	expected int64 // offset of its first record; -1 behind something that was left out
	skipped  int   // files, and gaps
}

func (o *oldTopic) open(ctx context.Context) error {
	var err error
	if o.list, err = legacy.List(ctx, o.store, o.topic); err != nil {
		return err
	}
	if len(o.list.Files) == 0 {
		if o.list.Nested > 0 {
			return fmt.Errorf("%s: no files of topic %s, only %d in folders below it: a name with slashes is not taken; name the folder with --from", o.store, o.topic, o.list.Nested)
		}
		return fmt.Errorf("%s: no files of topic %s", o.store, o.topic)
	}
	if o.list.Nested > 0 {
		o.say("warning: %d objects in folders below %s/ belong to other topics and are left alone", o.list.Nested, o.topic)
	}
	if o.list.Offsets == "" {
		return nil
	}
	named, err := legacy.ReadOffsets(ctx, o.store, o.list.Offsets)
	if errors.Is(err, record.ErrCorrupt) {
		o.say("warning: %s is damaged, and is not needed: %v", o.list.Offsets, err)
		return nil
	}
	if err != nil {
		return err
	}
	return o.compare(named)
}

// compare makes sure that every file is there that the offsets file names.
func (o *oldTopic) compare(named []uint64) error {
	i := 0
	for _, first := range named {
		for i < len(o.list.Files) && uint64(o.list.Files[i].First) < first {
			i++
		}
		if i < len(o.list.Files) && uint64(o.list.Files[i].First) == first {
			continue
		}
		err := fmt.Errorf("%s is missing, %s names it: %w", legacy.Name(o.topic, int64(first)), o.list.Offsets, record.ErrCorrupt)
		if !o.skip {
			return err
		}
		o.skipped++
		o.say("going on in spite of damage: %v", err)
	}
	return nil
}

// seek goes to the file that holds an offset and returns the offset of its first record. Where files were left out only
// counting from the beginning tells which record is where.
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
func (o *oldTopic) next(ctx context.Context) (*record.FileV1, error) {
	for o.at < len(o.list.Files) {
		f := o.list.Files[o.at]
		name := legacy.Name(o.topic, f.First)
		o.at++
		o.progress(f.Size)
		if o.expected >= 0 && f.First != o.expected {
			if err := o.leaveOut(o.gap(f.First)); err != nil {
				return nil, err
			}
		}
		file, err := legacy.Read(ctx, o.store, o.topic, f.First)
		switch {
		case errors.Is(err, record.ErrCorrupt), errors.Is(err, record.ErrTooLarge), errors.Is(err, objstore.ErrNotFound):
			o.expected = -1
			if err := o.leaveOut(fmt.Errorf("%s, records from offset %d on: %w", name, f.First, errors.Join(err, record.ErrCorrupt))); err != nil {
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

// gap says what is wrong with the offset of the next file.
func (o *oldTopic) gap(first int64) error {
	if first > o.expected {
		return fmt.Errorf("the records at offsets %d to %d are in no file: the next is %s: %w", o.expected, first-1, legacy.Name(o.topic, first), record.ErrCorrupt)
	}
	return fmt.Errorf("%s begins within the file before it, which ends at offset %d: %w", legacy.Name(o.topic, first), o.expected, record.ErrCorrupt)
}

// leaveOut decides whether to go on in spite of damage.
func (o *oldTopic) leaveOut(err error) error {
	if !o.skip {
		return fmt.Errorf("%w: --skip-damaged goes on behind it, and then the offsets that follow are not kept", err)
	}
	o.skipped++
	o.say("going on in spite of damage, offsets are not kept: %s", oneLine(err))
	return nil
}

// left says what was left out.
func (o *oldTopic) left() string {
	if o.skipped == 0 {
		return ""
	}
	return fmt.Sprintf("; %d files or gaps were passed over, so offsets are not kept", o.skipped)
}
