package torture

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/httpapi"
	"github.com/sebbroker/seb/internal/node"
)

// The original's client at the broker's limits: too many connections, too little memory, refused
// requests.

// TestOriginalWithMoreWritersThanConnections: queued connections wait, and success is only reported
// for stored records.
func TestOriginalWithMoreWritersThanConnections(t *testing.T) {
	const writers, connections, n = 64, 8, 1500
	s := serve(t, node.Options{Bucket: "mem:", BatchWait: time.Millisecond}, httpapi.Options{Connections: connections})
	c := newOriginal(t, s.url)
	var w outcomes
	w.write(c, writers, func() bool { return w.count()+int(w.failed.Load()) >= n })()
	c.client.CloseIdleConnections()
	if w.count() == 0 {
		t.Error("nothing was stored")
	}
	w.check(t, newOriginal(t, s.url))
}

// TestOriginalReadersWaitForMemory: with memory for a few records, many readers get all stored
// records, and never a refusal in place of a record.
func TestOriginalReadersWaitForMemory(t *testing.T) {
	const readers, n, size = 16, 8, 1 << 20
	s := serve(t, node.Options{Bucket: t.TempDir(), MemoryLimit: 16 << 20, BatchWait: time.Millisecond}, httpapi.Options{OriginalClient: true})
	c := newOriginal(t, s.url)
	value := func(i int) []byte { return bytes.Repeat([]byte{'a' + byte(i)}, size) }
	for i := range n {
		if err := c.add("t", value(i)); err != nil {
			t.Fatal(err)
		}
	}
	parallel(readers, 10*n, func(i int) {
		i %= n
		if got, err := c.record("t", uint64(i)); err != nil || !bytes.Equal(got, value(i)) {
			t.Errorf("record %d: %d bytes, %.80q, %v", i, len(got), got, err)
		}
		got, err := c.records("t", uint64(i), reads{max: 1, buffer: 2 * size, timeout: time.Second})
		if err != nil || len(got) != 1 || !bytes.Equal(got[0], value(i)) {
			t.Errorf("records from %d: %d, %v", i, len(got), err)
		}
	})
}

// TestOriginalReadBenchmarkWorkers: its read benchmark ends at the first answer that is shorter
// than requested.
func TestOriginalReadBenchmarkWorkers(t *testing.T) {
	const workers, batches, records, size = 16, 96, 1024, 1024
	// With the default memory limit.
	s := serve(t, node.Options{Bucket: t.TempDir()}, httpapi.Options{})
	c := newOriginal(t, s.url)
	batch := make([][]byte, records)
	for i := range batch {
		batch[i] = bytes.Repeat([]byte{byte(i)}, size)
	}
	parallel(workers, batches, func(int) {
		if err := c.add("t", batch...); err != nil {
			t.Error(err)
		}
	})
	parallel(workers, 300, func(i int) {
		from := uint64(i * 311 % ((batches - 1) * records))
		got, err := c.records("t", from, reads{max: records, buffer: 50 << 20, timeout: 5 * time.Second})
		if err != nil || len(got) != records || !bytes.Equal(got[0], batch[from%records]) {
			t.Errorf("from %d: %d records, %v", from, len(got), err)
		}
	})
}

// TestOriginalDetectsRefusals: requests that the original's broker accepts and this one refuses
// must not look like success.
func TestOriginalDetectsRefusals(t *testing.T) {
	s := serve(t, node.Options{Bucket: "mem:", BatchWait: node.BatchNone}, httpapi.Options{OriginalClient: true})
	c := newOriginal(t, s.url)
	if err := c.add("t", []byte("a")); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"a/b", "a b", "..", "x:y", "æøå", ""} {
		if c.add(topic, []byte("a")) == nil {
			t.Errorf("topic %q: reported as stored", topic)
		}
		if got, err := c.record(topic, 0); err == nil {
			t.Errorf("topic %q: read %q as a record", topic, got)
		}
		if got, err := c.records(topic, 0, reads{max: 1, buffer: 100}); err == nil {
			t.Errorf("topic %q: read %q as records", topic, got)
		}
		if next, err := c.nextOffset(topic); err == nil {
			t.Errorf("topic %q: next offset %d", topic, next)
		}
	}
	for name, sizes := range map[string][]uint32{"above": {3}, "below": {1}, "none": {}} {
		if c.addSized("t", sizes, []byte("ab")) == nil {
			t.Errorf("sizes %s the records: reported as stored", name)
		}
	}
	for _, offset := range []uint64{1, math.MaxInt64, 1 << 63, math.MaxUint64} {
		if got, err := c.record("t", offset); !errors.Is(err, errNotFound) {
			t.Errorf("offset %d: %q %v", offset, got, err)
		}
		if got, err := c.records("t", offset, reads{max: 1, buffer: 10, timeout: time.Millisecond}); err != nil || len(got) > 0 {
			t.Errorf("offset %d: %q %v", offset, got, err)
		}
	}
	if next, err := c.nextOffset("t"); err != nil || next != 1 {
		t.Errorf("next offset %d, %v", next, err)
	}
}

// TestOriginalLargestRequests: 30 MiB is the original's limit, for one record or many together.
func TestOriginalLargestRequests(t *testing.T) {
	const largest = 30 << 20
	stores(t, func(t *testing.T, bucket string) {
		s := serve(t, node.Options{Bucket: bucket, BatchWait: node.BatchNone}, httpapi.Options{})
		c := newOriginal(t, s.url)
		for topic, n := range map[string]int{"one": 1, "many": 30 << 10} {
			values := make([][]byte, n)
			for i := range values {
				values[i] = bytes.Repeat([]byte{byte(i)}, largest/n)
			}
			if err := c.add(topic, values...); err != nil {
				t.Errorf("%s: %v", topic, err)
				continue
			}
			if got, err := c.record(topic, uint64(n-1)); err != nil || !bytes.Equal(got, values[n-1]) {
				t.Errorf("%s: %d bytes, %v", topic, len(got), err)
			}
			if got, err := c.records(topic, 0, reads{max: 10, buffer: largest}); err != nil || len(got) != min(n, 10) {
				t.Errorf("%s: %d records, %v", topic, len(got), err)
			}
			values[0] = append(values[0], 'x')
			if err := c.add(topic, values...); !errors.Is(err, errTooLarge) {
				t.Errorf("%s, and a byte: %v", topic, err)
			}
		}
	})
}

// TestOriginalReadsSmallRecords: the JSON of the sizes fits into the buffer that it shares with the
// records.
func TestOriginalReadsSmallRecords(t *testing.T) {
	const n = 2000
	s := serve(t, node.Options{Bucket: "mem:", BatchWait: node.BatchNone}, httpapi.Options{})
	c := newOriginal(t, s.url)
	if err := c.add("t", bytes.Split(bytes.Repeat([]byte("x"), n), nil)...); err != nil {
		t.Fatal(err)
	}
	for _, buffer := range []int{3, 4, 5, 1000, 4001} {
		if got := c.all(t, "t", reads{max: n, buffer: buffer}); len(got) != n {
			t.Errorf("buffer of %d: %d records", buffer, len(got))
		}
	}
}
