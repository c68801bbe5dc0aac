package compare

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Compaction removes different records in two clusters, so the newest record of each key counts. Keys are
// spread over files by their checksums, as in a hash join: a file of each side fits into memory, and
// together they have all records.
const (
	bucketCount = 64
	// A row has checksum of the key, checksum and CRCs of the record, offset and whether it is a tombstone.
	rowSize = 2*len(sum{}) + 4*parts + 8 + 1
)

// buckets are the rows of one partition of a cluster, in files.
type buckets struct {
	files   [bucketCount]*os.File
	writers [bucketCount]*bufio.Writer
}

func newBuckets(dir, name string) (*buckets, error) {
	b := &buckets{}
	for n := range b.files {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(name, n)))
		if err != nil {
			return b, err
		}
		b.files[n], b.writers[n] = f, bufio.NewWriterSize(f, 16<<10)
	}
	return b, nil
}

func (b *buckets) close() {
	for _, f := range b.files {
		if f != nil {
			_ = f.Close() // temporary
		}
	}
}

func (b *buckets) add(i *item) error {
	row := make([]byte, 0, rowSize)
	row = append(append(row, i.key[:]...), i.sum[:]...)
	for _, p := range i.parts {
		row = binary.LittleEndian.AppendUint32(row, p)
	}
	row = binary.LittleEndian.AppendUint64(row, uint64(i.offset))
	var flag byte
	if i.tombstone {
		flag = 1
	}
	_, err := b.writers[i.key[0]%bucketCount].Write(append(row, flag))
	return err
}

// fill writes a stream to the files.
func (b *buckets) fill(s *stream) error {
	for i := s.at(0); i != nil; i = s.at(0) {
		if err := b.add(i); err != nil {
			return err
		}
		s.advance(1)
	}
	for _, w := range b.writers {
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// newest returns the newest record of each key in a file. A key whose newest record is a tombstone has no
// value, with and without the tombstone.
func (b *buckets) newest(n int) (map[sum]item, error) {
	f := b.files[n]
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	r, row, keys := bufio.NewReader(f), make([]byte, rowSize), map[sum]item{}
	for {
		if _, err := io.ReadFull(r, row); errors.Is(err, io.EOF) {
			return keys, nil
		} else if err != nil {
			return nil, err
		}
		i := item{key: sum(row), sum: sum(row[len(sum{}):]), tombstone: row[rowSize-1] == 1}
		rest := row[2*len(sum{}):]
		for p := range i.parts {
			i.parts[p] = binary.LittleEndian.Uint32(rest[4*p:])
		}
		i.offset = int64(binary.LittleEndian.Uint64(rest[4*parts:]))
		if i.tombstone {
			delete(keys, i.key)
		} else {
			keys[i.key] = i
		}
	}
}

// compareKeys compares the newest records of the keys of two streams. dir is for temporary files.
func compareKeys(dir string, from, to *stream, result *Partition) error {
	var sides [2]*buckets
	for n, s := range []*stream{from, to} {
		b, err := newBuckets(dir, []string{"from", "to"}[n])
		defer b.close()
		if err != nil {
			return err
		}
		if err := b.fill(s); err != nil {
			return err
		}
		sides[n] = b
	}
	for n := range bucketCount {
		x, err := sides[0].newest(n)
		if err != nil {
			return err
		}
		y, err := sides[1].newest(n)
		if err != nil {
			return err
		}
		result.From.Keys += int64(len(x))
		result.To.Keys += int64(len(y))
		differingKeys(x, y, result)
	}
	return nil
}

func differingKeys(from, to map[sum]item, result *Partition) {
	for key, x := range from {
		y, ok := to[key]
		switch {
		case !ok:
			result.differ(Difference{Kind: Missing, From: new(x.offset)}, 1)
		case x.sum != y.sum:
			result.differ(Difference{Kind: Changed, From: new(x.offset), To: new(y.offset), Parts: differing(x.parts, y.parts)}, 1)
		}
	}
	for key, y := range to {
		if _, ok := from[key]; !ok {
			result.differ(Difference{Kind: Extra, To: new(y.offset)}, 1)
		}
	}
}
