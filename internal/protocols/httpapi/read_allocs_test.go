package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// connected is a discardWriter with the methods of a connection: ReadFrom and deadlines.
type connected struct {
	discardWriter
	buf   []byte
	bytes int
}

func (c *connected) Write(b []byte) (int, error) {
	c.bytes += len(b)
	return len(b), nil
}

func (c *connected) SetReadDeadline(time.Time) error  { return nil }
func (c *connected) SetWriteDeadline(time.Time) error { return nil }

func (c *connected) ReadFrom(r io.Reader) (n int64, err error) {
	for {
		m, err := r.Read(c.buf)
		n += int64(m)
		c.bytes += m
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// TestReadAllocations checks that the allocations of an answer do not grow with its records, from
// memory and from files.
func TestReadAllocations(t *testing.T) {
	sebtest.Long(t, "TestProduceAllocations remains")
	const many, size = 4096, 600
	body, kind := form(values(many, size)...)
	disk := func(c *setup) {
		store := must.Get(objstore.OpenDisk(t.TempDir(), objstore.DiskOptions{NoSync: true}))(t)
		c.store, c.limit = store, 32<<20 // one object is larger than the tail may be
	}
	for from, change := range map[string]func(*setup){"memory": func(*setup) {}, "files": disk} {
		s := start(t, change)
		s.mustPost("topic-name=t", kind, body)
		for _, form := range readTypes[:sebtest.Runs(4, 2)] {
			t.Run(from+" "+form, func(t *testing.T) {
				defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties the pools
				one, all := s.readAllocs(t, canary, form, 1, 0), s.readAllocs(t, canary, form, many, many*size)
				t.Logf("%.0f objects with 1 record, %.0f with %d", one, all, many)
				if all-one > many/100 {
					t.Errorf("an answer of %d records allocates more than one of 1 record", many)
				}
			})
		}
	}
}

// readAllocs returns the number of objects that a read of n records allocates. The answer must have
// at least least bytes.
func (s *server) readAllocs(t *testing.T, key, form string, n, least int) float64 {
	r, err := http.NewRequest("GET", fmt.Sprintf("/records?topic-name=t&offset=0&max-records=%d", n), nil)
	must.NoError(t, err)
	r.RemoteAddr = "192.0.2.1:5"
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Accept", form)
	w := connected{discardWriter: discardWriter{header: http.Header{}}, buf: make([]byte, 64<<10)}
	return testing.AllocsPerRun(sebtest.Runs(20, 5), func() {
		w.bytes = 0
		if s.api.ServeHTTP(&w, r); w.status != http.StatusOK || w.bytes < max(least, 1) {
			t.Fatal(w.status, w.bytes)
		}
	})
}
