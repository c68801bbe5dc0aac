package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/cluster/link"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/anystore"
	"github.com/sebbroker/seb/internal/engine/views/snapshot"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/v1"
	"github.com/sebbroker/seb/record"
	"github.com/spf13/cobra"
)

// inspectFlags are the flags of `seb inspect`.
type inspectFlags struct {
	bucket  string
	dataDir string
	records bool
	bytes   int
}

func newInspect() *cobra.Command {
	var i inspectFlags
	cmd := &cobra.Command{
		Use:   "inspect FILE|KEY",
		Short: "Show and verify an object",
		Long: `Shows any object of a bucket, or a file in the original program's format: commit objects, packs, snapshots, the cluster
object, registrations of brokers, .record_batch and .offsets files. It looks for a file first, then for a key in --bucket (default: the local broker's
bucket). It verifies every checksum; damage is an error.

A bucket in a folder keeps the commit objects of an epoch in journal files. Of such a file it shows each batch and the names,
offsets and sizes of the objects in it, with --records also their content. It also shows what the other files of a journal are.`,
		Example: "  seb inspect s0000/wal/0000000001-.../00000000000000000000 --records\n  seb inspect 000000000000.record_batch",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if err := config.FromEnv(cmd.Flags(), os.LookupEnv); err != nil {
				return usageError{err}
			}
			d := dump{w: cmd.OutOrStdout(), records: i.records, bytes: i.bytes}
			if file := i.journalFile(name); file != "" {
				if err := d.journal(file); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				return nil
			}
			b, err := i.read(cmd.Context(), name)
			if err != nil {
				return err
			}
			if err := d.object(name, b); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&i.bucket, "bucket", "", "bucket of the key: ./folder or s3://name/prefix?... (default: "+config.BucketHelp+")")
	f.StringVar(&i.dataDir, "data-dir", config.Default().DataDir, "data folder of the local broker")
	f.BoolVarP(&i.records, "records", "a", false, "also print the records")
	f.IntVarP(&i.bytes, "dump-record-bytes", "b", 64, "bytes to print of each record (0: all)")
	atLeast(cmd, "dump-record-bytes", 0)
	needs(cmd, []string{"dump-record-bytes"}, "records")
	return cmd
}

// journalFile returns the path of a file of a journal, which is given as a path or by its name in the
// bucket, and "" if name is none.
func (i *inspectFlags) journalFile(name string) string {
	bucket := i.bucket
	if bucket == "" {
		if isJournal(name) {
			return name
		}
		if _, err := os.Stat(name); err == nil {
			return ""
		}
		bucket, _ = config.DefaultBucket(i.dataDir) // read returns the error
	}
	if spec, err := objstore.ParseSpec(bucket); err == nil && spec.Kind == objstore.KindDisk {
		if file := filepath.Join(spec.Dir, name); isJournal(file) {
			return file
		}
	}
	return ""
}

// read returns all bytes of the object.
func (i *inspectFlags) read(ctx context.Context, name string) ([]byte, error) {
	if i.bucket == "" {
		b, err := os.ReadFile(name)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return b, err
		}
		if i.bucket, err = config.DefaultBucket(i.dataDir); err != nil {
			return nil, err
		}
		if _, err := os.Stat(strings.TrimPrefix(i.bucket, "file:")); err != nil {
			return nil, fmt.Errorf("%s: no such file, and no bucket %s; set one with --bucket", name, strings.TrimPrefix(i.bucket, "file:"))
		}
	}
	store, err := anystore.Open(ctx, i.bucket, readOnlyOptions)
	if err != nil {
		return nil, usageError{err}
	}
	o, err := store.Get(ctx, name, objstore.Whole)
	if err != nil {
		return nil, fmt.Errorf("read %s from %s: %w", name, store, err)
	}
	defer o.Body.Close()
	return io.ReadAll(o.Body)
}

// dump prints objects for people.
type dump struct {
	w       io.Writer
	records bool
	bytes   int
}

func (d *dump) line(format string, args ...any) { fmt.Fprintf(d.w, format+"\n", args...) }

func (d *dump) object(name string, b []byte) error {
	switch {
	case strings.HasSuffix(name, "meta/cluster"):
		if _, _, err := core.DecodeMeta(b); errors.Is(err, state.ErrNewer) {
			return err
		}
		d.line("cluster object\n%s", bytes.TrimSpace(b))
		return nil
	case strings.Contains(name, "/snap/"):
		return d.snapshot(b)
	case strings.Contains(name, snapshot.Prefix(0)):
		n, ok := snapshot.ParseName(0, name[strings.Index(name, snapshot.Prefix(0)):])
		if !ok {
			return fmt.Errorf("%s: not the name of a snapshot of a local database", name)
		}
		return snapshot.Print(d.w, &n, b)
	case bytes.HasPrefix(b, []byte(link.Magic)):
		return d.registration(b)
	case bytes.HasPrefix(b, []byte(v1.MagicOffsets)):
		return d.offsetsV1(b)
	case bytes.HasPrefix(b, []byte{0x1f, 0x8b}):
		return d.fileV1(b)
	}
	o, err := record.DecodeObject(b)
	if errors.Is(err, record.ErrVersion1) {
		return d.fileV1(b)
	}
	if err != nil {
		return err
	}
	return d.objectV2(o, len(b))
}

func (d *dump) registration(b []byte) error {
	r, err := link.Decode(b)
	if err != nil {
		return err
	}
	d.line("registration of broker %s, run %s, node %s", r.Name, r.Run.ID, r.Run.Node)
	d.line("addresses for other brokers: %s (TLS: %t)", cmp.Or(strings.Join(r.Addresses, ", "), "none"), r.Secure)
	d.line("HTTP API: %s", cmp.Or(r.URL, "none"))
	d.line("Kafka: %s, node %d", cmp.Or(r.Kafka, "none"), r.KafkaID)
	d.line("Seb %s, format levels up to %d, read-only: %t", r.Version, r.LevelMax, r.ReadOnly)
	d.line("SHA-256 of the key of its links: %x\nall checksums are correct", r.KeyHash)
	return nil
}

func (d *dump) objectV2(o *record.Object, size int) error {
	h := &o.Head
	changes, err := state.DecodeRecords(o.State)
	if errors.Is(err, state.ErrNewer) {
		return err
	}
	d.line("version 2, %s, %d bytes, %d records, %s", h.Kind, size, h.Records, micros(h.Time))
	d.line("cluster %s, shard %d, epoch %d nonce %s, slot %d, committed below %d", h.Cluster, h.Shard, h.Epoch, h.Nonce, h.Slot, h.Low)
	if h.Kind == record.KindSeal {
		d.line("next epoch %d nonce %s", h.NextEpoch, h.NextNonce)
	}
	if err != nil {
		return err
	}
	for _, r := range changes {
		d.stateRecord(&r)
	}
	for i := range o.Index {
		e := &o.Index[i]
		d.line("topic %s partition %d: offsets %d to %d, %d records, %d bytes at %d", e.Topic, e.Partition, e.Base,
			e.Base+int64(e.Span)-1, e.Records, e.Len, e.Pos)
		if d.records {
			if err := d.batches(o.Batches(i)); err != nil {
				return err
			}
		}
	}
	d.line("all checksums are correct")
	return nil
}

func (d *dump) stateRecord(r *state.Record) {
	say := func(format string, args ...any) { d.line("%s: %s", r.Kind, fmt.Sprintf(format, args...)) }
	switch r.Kind {
	case state.TopicCreate:
		say("%s, id %s, %d partitions, settings %v", r.Name, r.Topic, r.Partitions, r.Settings)
	case state.TopicDelete:
		say("id %s", r.Topic)
	case state.TopicChange:
		say("id %s, %d partitions (0: as before), settings %v", r.Topic, r.Partitions, r.Settings)
	case state.LeaderHint:
		say("%s", r.Name)
	case state.TopicTrim:
		say("id %s partition %d, starts at offset %d", r.Topic, r.Partition, r.Offset)
	case state.OffsetCommit:
		say("group %s, topic %s partition %d, offset %d, metadata %q, %s", r.Name, r.Topic, r.Partition, r.Offset, r.Metadata, micros(r.Time))
	case state.OffsetDelete:
		say("group %s, topic %s partition %d (no topic: all of it)", r.Name, r.Topic, r.Partition)
	case state.ProducerAppend:
		transactional := ""
		if r.Transactional {
			transactional = ", in a transaction"
		}
		say("producer %d epoch %d, topic %s partition %d, offset %d: %d records from sequence %d%s", r.Producer.ID, r.Producer.Epoch,
			r.Topic, r.Partition, r.Offset, r.Producer.Span, r.Producer.Sequence, transactional)
	case state.PackInstall:
		if r.Pack == nil {
			say("without a pack")
			return
		}
		say("number %d, %d bytes, %d runs", r.Pack.ID, r.Pack.Size, len(r.Pack.Entries))
	case state.CompactionDone:
		say("topic %s partition %d, up to offset %d, tombstones removed below offset %d, %d kept above, %s", r.Topic, r.Partition,
			r.Clean.To, r.Clean.Swept, r.Clean.Tombstones, micros(r.Clean.Time))
	case state.FormatLevel:
		say("%d, needs Seb %s or newer", r.Level, r.Name)
	case state.LeaderRun:
		say("%s", r.Run)
	case state.ProducersForget:
		say("whose newest batch is older than %s, of owner %d (0: all)", micros(r.Time), r.Owner)
	case state.NextSlot:
		say("within %d ms", r.Within)
	case state.TransactionUpdate:
		d.transaction(r)
	default:
		say("topic %s partition %d", r.Topic, r.Partition)
	}
}

func (d *dump) transaction(r *state.Record) {
	c := r.Transaction
	forced := ""
	if c.Forced {
		forced = " by the broker"
	}
	d.line("%s: %s of %q%s, producer %d epoch %d from here on, timeout %d ms", r.Kind, c.Kind, r.Name, forced, c.Producer.ID, c.Producer.Epoch, c.Timeout)
	for i := range c.Offsets {
		o := &c.Offsets[i]
		d.line("  group %s, topic %s partition %d, offset %d, metadata %q", o.Group, o.Topic, o.Partition, o.Offset, o.Metadata)
	}
	for _, m := range c.Marks {
		d.line("  marker in topic %s partition %d at offset %d", m.Topic, m.Partition, m.Offset)
	}
}

// batches prints the records of batches, the ranges in which compaction has removed some, and what belongs to a
// transaction.
func (d *dump) batches(b []byte) error {
	var r record.Reader
	for len(b) > 0 {
		batch, rest, err := record.Split(b)
		if err != nil {
			return err
		}
		if m, ok := batch.Marker(); ok {
			d.line("  %d: %s, %s of the transaction of producer %d epoch %d", batch.BaseOffset(), micros(m.Timestamp*1000), m.Verb(), m.ProducerID, m.ProducerEpoch)
		} else if batch.Transactional() {
			d.line("  offsets %d to %d, in a transaction of producer %d epoch %d", batch.BaseOffset(), batch.BaseOffset()+batch.Span()-1, batch.ProducerID(), batch.ProducerEpoch())
		}
		if n := int64(batch.Count()); n < batch.Span() && !batch.Control() {
			d.line("  offsets %d to %d, %d records are left", batch.BaseOffset(), batch.BaseOffset()+batch.Span()-1, n)
		}
		for r.Reset(batch, batch.BaseOffset()); r.Next(); {
			rec := r.Record()
			d.line("  %d: %s key %s value %s headers %d", rec.Offset, micros(rec.Timestamp*1000), d.text(rec.Key), d.text(rec.Value), len(rec.Headers))
		}
		if r.Err() != nil {
			return r.Err()
		}
		b = rest
	}
	return nil
}

func (d *dump) fileV1(b []byte) error {
	f, err := v1.Decode(b, 0)
	if err != nil {
		return err
	}
	d.line("version 1 record batch, %d bytes, %d records, %s", len(b), f.Len(), micros(f.Time))
	if d.records {
		for i := range f.Len() {
			d.line("  +%d: %s", i, d.text(f.Value(i)))
		}
	}
	return nil
}

func (d *dump) offsetsV1(b []byte) error {
	f, err := v1.DecodeOffsets(b)
	if err != nil {
		return err
	}
	d.line("version 1 offsets, %d batches, %s", len(f.Offsets), micros(f.Time))
	if d.records {
		for _, o := range f.Offsets {
			d.line("  %d", o)
		}
	}
	return nil
}

func (d *dump) snapshot(b []byte) error {
	s, err := state.DecodeSnapshot(b)
	if err != nil {
		return err
	}
	d.line("snapshot, %d bytes, at epoch %d slot %d, format level %d", len(b), s.Pos.Epoch, s.Pos.Slot, s.Level)
	for _, t := range s.Topics() {
		d.line("topic %s, id %s, settings %v", t.Name, t.ID, t.Settings)
		for i, p := range t.Partitions.All() {
			compacted := ""
			if p.Clean > 0 {
				compacted = fmt.Sprintf(", compacted up to offset %d", p.Clean)
			}
			if stable := p.LastStable(); stable < p.Next {
				compacted += fmt.Sprintf(", open transactions from offset %d on", stable)
			}
			if n := len(p.Aborted); n > 0 {
				compacted += fmt.Sprintf(", %d aborted transactions", n)
			}
			d.line("  partition %d: offsets %d to %d, %d records, %d bytes in %d ranges%s", i, p.Start, p.Next-1, p.Records, p.Bytes,
				len(p.Ranges), compacted)
		}
	}
	for _, t := range s.Transactions() {
		open := "not open"
		if t.Open() {
			open = fmt.Sprintf("open since %s with %d partitions and %d offsets of groups", micros(t.Started), len(t.Parts), len(t.Offsets))
		}
		d.line("transactional ID %q, producer %d epoch %d: %s", t.ID, t.Producer, t.Epoch, open)
	}
	return nil
}

// text quotes bytes, at most d.bytes of them.
func (d *dump) text(b []byte) string {
	if b == nil {
		return "null"
	}
	if d.bytes > 0 && len(b) > d.bytes {
		return fmt.Sprintf("%q [+%d bytes]", b[:d.bytes], len(b)-d.bytes)
	}
	return fmt.Sprintf("%q", b)
}

func micros(t int64) string { return time.UnixMicro(t).UTC().Format("2006-01-02T15:04:05.000000Z") }

// readOnlyOptions are the options of stores of commands that only read.
var readOnlyOptions = anystore.Options{Existing: true}
