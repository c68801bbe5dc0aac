package migration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
)

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
func (o *oldTopic) next(ctx context.Context) (*record.FileV1, error) {
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
