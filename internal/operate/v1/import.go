package v1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

// ImportOptions configure an import. All fields except SkipDamaged and Reporter are required.
type ImportOptions struct {
	Store  objstore.Store // the version-1 bucket
	From   string         // topic in the store
	Client *client.Client
	Topic  string // topic of the broker: missing, empty, or the start of this import
	// SkipDamaged skips damaged and missing files. The offsets after them are not kept.
	SkipDamaged bool
	Reporter
}

// Imported is the result of an import.
type Imported struct {
	Records int64 // stored by this run
	Next    int64 // end offset of the topic
	Skipped int   // files and gaps, with SkipDamaged
}

// Import sends the records of a topic's files to a broker, in order, with their offsets and with
// their file's time in milliseconds. It may end at any point: the next import compares the last
// existing records with the files and continues after them. Nothing is sent twice, because each
// request has its offset as a condition.
//
// A damaged or missing file ends the import with an error that names the file and the offset and
// matches record.ErrCorrupt. The records before it are stored.
func Import(ctx context.Context, o ImportOptions) (Imported, error) {
	say := o.sayFunc()
	i := &importing{
		old: &oldTopic{store: o.Store, topic: o.From, skip: o.SkipDamaged, say: say}, client: o.Client, topic: o.Topic, say: say,
	}
	err := i.open(ctx)
	if err == nil {
		i.old.progress = o.start(i.old.list.Bytes)
		err = i.all(ctx)
	}
	return Imported{Records: i.sent, Next: i.next, Skipped: i.old.skipped}, err
}

// importing is the state of an import.
type importing struct {
	old    *oldTopic
	client *client.Client
	topic  string
	say    sayFunc

	begin    int64 // the topic's end at the start of the import; earlier records are compared
	next     int64 // offset of the next record
	batchMax int   // the topic's max-batch-bytes
	sent     int64
	existing []fingerprint // the last records before begin
	chunk    []record.Record
	bytes    int
}

const (
	// chunkBytes and chunkRecords bound one request. Requests are sequential, to keep the order.
	chunkBytes   = 4 << 20
	chunkRecords = 50_000
	// retryTime bounds the retries of a chunk with an unknown outcome.
	retryTime = 30 * time.Second
	// compared is the number of records before the topic's end that a continued import compares
	// with the files.
	compared = 200
	// maxBatchBytesDefault is the default of a topic's max-batch-bytes.
	maxBatchBytesDefault = 1_048_588
)

// open finds the position to continue at.
func (i *importing) open(ctx context.Context) error {
	if err := i.old.open(ctx); err != nil {
		return err
	}
	t, err := i.client.Topic(ctx, i.topic)
	if errors.Is(err, client.ErrUnknownTopic) {
		t, err = i.client.CreateTopic(ctx, i.topic, client.TopicSpec{Partitions: 1})
		if errors.Is(err, client.ErrTopicExists) { // created by the last request of an interrupted import
			t, err = i.client.Topic(ctx, i.topic)
		}
	}
	if err != nil {
		return fmt.Errorf("topic %s: %w", i.topic, err)
	}
	if n := len(t.Partitions); n != 1 {
		return fmt.Errorf("topic %s has %d partitions, but order and offsets need a single one; choose another name with --as", i.topic, n)
	}
	if t.Settings["timestamp-type"] == "LogAppendTime" {
		i.say("warning: topic %s has timestamp-type=LogAppendTime: the times of the files are not kept", i.topic)
	}
	if strings.HasPrefix(t.Settings["cleanup-policy"], "compact") {
		i.say("warning: topic %s is compacted, and records of the files have no keys: they stay permanently", i.topic)
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
		return fmt.Errorf("topic %s is not empty, and its removed records cannot be compared with the files; choose another name with --as", i.topic)
	}
	from := max(p.Start, i.begin-compared)
	for r, err := range i.client.Records(ctx, i.topic, client.ReadOptions{Offset: from}) {
		if err != nil {
			return fmt.Errorf("read topic %s: %w", i.topic, err)
		}
		if r.Offset < i.begin {
			i.existing = append(i.existing, fingerprintOf(r))
		}
	}
	if int64(len(i.existing)) != i.begin-from {
		return i.notOurs(from)
	}
	return nil
}

// notOurs is the error for a topic with other records.
func (i *importing) notOurs(offset int64) error {
	return fmt.Errorf("topic %s is not empty, and its record at offset %d differs from the files: it is not the start of this import; choose another name with --as", i.topic, offset)
}

// all sends every record that does not exist yet.
func (i *importing) all(ctx context.Context) error {
	first := i.begin - int64(len(i.existing)) // first offset of the compared records
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
			if sendErr := i.flush(ctx); sendErr != nil {
				return fmt.Errorf("%w (and after that: %w)", err, sendErr)
			}
			return err
		}
		for n := range f.Len() {
			r := record.Record{Timestamp: floorMillis(f.Time), Value: f.Value(n)}
			switch {
			case at >= i.begin:
				if len(i.chunk) > 0 && i.bytes+len(r.Value) > chunkBytes || len(i.chunk) >= chunkRecords {
					if err := i.flush(ctx); err != nil {
						return err
					}
				}
				i.chunk = append(i.chunk, r)
				i.bytes += len(r.Value)
			case at >= first && i.existing[at-first] != fingerprintOf(&r):
				return i.notOurs(at)
			}
			at++
		}
	}
	if at < i.begin {
		return fmt.Errorf("topic %s ends at offset %d, but the files at %d: it has other records", i.topic, i.begin, at)
	}
	return i.flush(ctx)
}

func floorMillis(micros int64) int64 {
	ms := micros / 1000
	if micros%1000 < 0 {
		ms--
	}
	return ms
}

// flush stores the chunk at exactly its offsets.
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
		// The expected offset makes a repetition safe, whatever the outcome of the last attempt.
		_, err := i.client.ProduceBatches(ctx, i.topic, data, client.ProduceOptions{ExpectedOffset: &i.next})
		if err == nil {
			break
		}
		if e, ok := errors.AsType[*client.Error](err); ok && errors.Is(err, client.ErrOffsetMismatch) {
			if e.NextOffset < i.next+n {
				return fmt.Errorf("another client writes to topic %s: %w", i.topic, err)
			}
			if err := i.compare(ctx); err != nil {
				return err
			}
			break
		}
		if !errors.Is(err, client.ErrOutcomeUnknown) || ctx.Err() != nil || time.Now().After(end) {
			return fmt.Errorf("offset %d: %w", i.next, err)
		}
		_ = pause.Wait(ctx, 200*time.Millisecond)
	}
	i.next += n
	i.sent += n
	clear(i.chunk)
	i.chunk, i.bytes = i.chunk[:0], 0
	return nil
}

// compare checks that an attempt with an unknown outcome has stored the chunk.
func (i *importing) compare(ctx context.Context) error {
	at := 0
	for r, err := range i.client.Records(ctx, i.topic, client.ReadOptions{Offset: i.next}) {
		if err != nil {
			return err
		}
		if fingerprintOf(r) != fingerprintOf(&i.chunk[at]) {
			return i.notOurs(r.Offset)
		}
		if at++; at == len(i.chunk) {
			return nil
		}
	}
	return i.notOurs(i.next + int64(at))
}

// makeRoom raises the topic's limit for a record that is larger than a batch may be.
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
	i.say("a record needs a batch of %d bytes: raising max-batch-bytes of topic %s to that", largest, i.topic)
	if _, err := i.client.UpdateTopic(ctx, i.topic, client.TopicSpec{Settings: map[string]string{"max-batch-bytes": fmt.Sprint(largest)}}); err != nil {
		return fmt.Errorf("a record of %d bytes: %w", largest, err)
	}
	i.batchMax = largest
	return nil
}

// fingerprint identifies a record without storing it.
type fingerprint struct {
	time int64
	size int
	crc  uint32
	rest bool // has a key, headers or no value, so it is not from an import
}

func fingerprintOf(r *record.Record) fingerprint {
	return fingerprint{r.Timestamp, len(r.Value), record.CRC32C(r.Value), r.Key != nil || len(r.Headers) > 0 || r.Value == nil}
}
