package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// bare sends a GET like the original's client: no Accept header, except on GET /records.
func (s *server) bare(path string) (*answered, error) {
	h := map[string]string{}
	if strings.HasPrefix(path, "/records") {
		h["Accept"] = api.Multipart
	}
	return s.try(call{method: "GET", path: path, header: h, bare: true})
}

// ofTheOriginal sets the option for the original's client.
func ofTheOriginal(c *setup) { c.http.OriginalClient = true }

// TestRequestsWithoutAcceptAreAnswered: a program that uses Go's net/http sends no Accept header
// and gets its errors.
func TestRequestsWithoutAcceptAreAnswered(t *testing.T) {
	s := start(t, func(c *setup) { c.http.BudgetWait = time.Hour })
	s.mustPost("topic-name=t", api.TextPlain, "a")
	mp, form := form("a")
	multi := map[string]string{"Content-Type": form}
	withAccept := map[string]string{"Content-Type": form, "Accept": "*/*"}
	lines := map[string]string{"Content-Type": api.TextPlain}
	for _, c := range []struct {
		call
		code api.Code
	}{
		{call{method: "GET", path: "/record?topic-name=t&offset=x"}, api.BadRequest},
		{call{method: "GET", path: "/records?topic-name=t"}, api.BadRequest},
		{call{method: "GET", path: "/topic?topic-name=.."}, api.BadRequest},
		{call{method: "POST", path: "/records?topic-name=t", body: strings.NewReader(""), header: lines}, api.BadRequest},
		{call{method: "POST", path: "/records?topic-name=t&partition=0&expected-offset=5", body: strings.NewReader("a"), header: lines}, api.OffsetMismatch},
		{call{method: "POST", path: "/records?topic-name=t&partition=0&expected-offset=5", body: strings.NewReader(mp), header: withAccept}, api.OffsetMismatch},
		// Statuses that the original's client understands.
		{call{method: "POST", path: "/records?topic-name=t&partition=1", body: strings.NewReader(mp), header: multi}, api.UnknownPartition},
	} {
		c.bare = true
		if a := s.do(c.call); a.problem(t).Code != c.code {
			t.Errorf("%s %s: %s", c.method, c.path, a)
		}
	}
	// They do not wait for memory, and neither does a multipart produce with an Accept header.
	release := s.full()
	defer release()
	fetch := s.budget.Class(budget.Fetch)
	room := must.Get(fetch.Reserve(fetch.Limit() - fetch.Used()))(t)
	defer room.Release()
	for _, c := range []call{
		{method: "GET", path: "/record?topic-name=t&offset=0"},
		{method: "GET", path: "/records?topic-name=t&offset=0"},
		{method: "POST", path: "/records?topic-name=t", body: strings.NewReader("a"), header: lines},
		{method: "POST", path: "/records?topic-name=t", body: strings.NewReader(mp), header: withAccept},
	} {
		c.bare = true
		if a := s.do(c); a.problem(t).Code != api.OverBudget {
			t.Errorf("%s %s: %s", c.method, c.path, a)
		}
	}
}

func TestReadsWithoutAcceptAreNotMisled(t *testing.T) {
	s := start(t, ofTheOriginal)
	s.mustPost("topic-name=t", api.TextPlain, "a\nb")
	for _, path := range []string{
		"/record?topic-name=t&offset=x", "/record?topic-name=..&offset=0", "/record?topic-name=t", "/record",
		"/records?topic-name=t&offset=x", "/records?topic-name=t&offset=0&max-records=-1",
		"/topic?topic-name=a/b", "/topic",
	} {
		if a, err := s.try(call{method: "GET", path: path, bare: true}); err == nil {
			t.Errorf("%s: %s", path, a)
		}
		if a := s.get(path); a.problem(t).Code != api.BadRequest {
			t.Errorf("%s with an Accept header: %s", path, a)
		}
		if a, err := s.try(call{method: "GET", path: path, noKey: true, bare: true}); err != nil || a.status != 401 {
			t.Errorf("%s without a key: %s %v", path, a, err)
		}
	}
	for path, status := range map[string]int{
		"/record?topic-name=t&offset=0": 200, "/record?topic-name=t&offset=2": 404, "/record?topic-name=none&offset=0": 404,
		"/record?topic-name=t&offset=9223372036854775807": 404, "/record?topic-name=t&offset=9223372036854775808": 404,
		"/record?topic-name=t&offset=18446744073709551615": 404,
		"/records?topic-name=t&offset=0":                   200, "/records?topic-name=none&offset=0": 404,
		"/records?topic-name=t&offset=18446744073709551615&timeout=5ms": 206,
		"/records?topic-name=t&offset=9223372036854775808&timeout=5ms":  206,
		"/topic?topic-name=t": 200, "/topic?topic-name=none": 404, "/topics": 200, "/nothing": 404,
	} {
		if a, err := s.try(call{method: "GET", path: path, bare: true}); err != nil || a.status != status {
			t.Errorf("%s: %s %v, want %d", path, a, err, status)
		}
	}
}

// diskSetup is a topic of n batches of 16 records of 1 KiB on disk, none of them in memory.
func diskSetup(t *testing.T, limit int64, n int) *server {
	t.Helper()
	dir := t.TempDir()
	open := func() *server {
		store := must.Get(objstore.OpenDisk(dir, objstore.DiskOptions{}))(t)
		return start(t, func(c *setup) {
			c.store, c.limit, c.http.BudgetWait, c.http.OriginalClient = store, limit, 20*time.Second, true
		})
	}
	s := open()
	for range n {
		body, kind := form(values(16, 1024)...)
		s.mustPost("topic-name=t", kind, body)
	}
	must.NoError(t, s.b.Close(context.Background()))
	return open()
}

func TestReadsOfTheOriginalWaitForMemory(t *testing.T) {
	s := diskSetup(t, 32<<20, 16)
	c := s.budget.Class(budget.Fetch)
	for _, path := range []string{"/record?topic-name=t&offset=3", "/records?topic-name=t&offset=3&max-records=200"} {
		// Most memory is in use: the rest is enough to start, but not for everything.
		for _, left := range []int64{0, 200 << 10} {
			// A handler releases its memory after its client has the answer.
			sebtest.Eventually(t, "the memory of the request before is back", func() bool { return c.Used() == 0 })
			room := must.Get(c.Reserve(c.Limit() - left))(t)
			if left == 0 {
				if a := s.get(path); a.problem(t).Code != api.OverBudget {
					t.Errorf("%s with an Accept header: %s", path, a)
				}
			}
			done := make(chan *answered)
			go func() {
				a, err := s.bare(path)
				check.NoError(t, err)
				done <- a
			}()
			waits := left == 0 || strings.HasPrefix(path, "/records")
			if waits {
				sebtest.Eventually(t, path+" waits", func() bool { return c.Usage().Waiting == 1 })
			}
			var a *answered
			if !waits {
				a = <-done
			}
			room.Release()
			if waits {
				a = <-done
			}
			switch {
			case a == nil || a.status != http.StatusOK:
				t.Errorf("%s, %d left: %s", path, left, a)
			case strings.HasPrefix(path, "/records"):
				check.Equalf(t, len(a.unform(t)), 200, "%s, %d left: records", path, left)
			}
		}
	}
	// The last handler releases the semaphore after its client has the answer.
	ctx, cancel := context.WithTimeout(t.Context(), sebtest.Limit)
	defer cancel()
	must.NoErrorf(t, s.api.source.sem.Acquire(ctx, s.api.source.semSize), "the semaphore is still in use")
}

func TestReadsOfTheOriginalTimeOut(t *testing.T) {
	s := start(t, ofTheOriginal, func(c *setup) { c.http.BudgetWait = 20 * time.Millisecond })
	s.mustPost("topic-name=t", api.TextPlain, "a")
	c := s.budget.Class(budget.Fetch)
	room := must.Get(c.Reserve(c.Limit()))(t)
	defer room.Release()
	if a, err := s.bare("/record?topic-name=t&offset=0"); err == nil {
		t.Errorf("the client takes this for a record: %s", a)
	}
	// The client checks the media type of this answer.
	if a, err := s.bare("/records?topic-name=t&offset=0"); err != nil || a.status != http.StatusTooManyRequests {
		t.Errorf("%s %v", a, err)
	}
}

// TestManyReadsOfTheOriginal: all of many readers get their records, although the memory is not
// enough for all at once.
func TestManyReadsOfTheOriginal(t *testing.T) {
	t.Parallel()
	sebtest.Long(t, "TestReadsFromFiles remains")
	const batches = 64 // of 16 KiB
	s := diskSetup(t, 16<<20, batches)
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			for j := range sebtest.Runs(10, 2) {
				from := (i*97 + j*13) % (batches*16 - 400)
				a, err := s.bare(fmt.Sprintf("/records?topic-name=t&offset=%d&max-records=400", from))
				if err != nil || a.status != 200 {
					t.Errorf("from %d: %s %v", from, a, err)
					continue
				}
				if got := a.unform(t); len(got) != 400 || got[0][:8] != fmt.Sprintf("%08d", from%16) {
					t.Errorf("from %d: %d records", from, len(got))
				}
			}
		})
	}
	wg.Wait()
}

func TestSizesFitTheBuffer(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, strings.Repeat("x\n", 500)+strings.Repeat("y", 12)+"\nz")
	for _, c := range []struct{ offset, max, want int }{
		{0, 1, 1},      // at least one
		{0, 100, 49},   // [1,1,...]: two bytes each and one more
		{0, 101, 50},   // exactly full
		{0, 5000, 502}, // all
		{499, 14, 3},
		{499, 13, 2},
		{499, 12, 1},
	} {
		q := url.Values{"topic-name": {"t"}, "offset": {fmt.Sprint(c.offset)}, "max-records": {"1000"}, "max-bytes": {fmt.Sprint(c.max)}}
		check.Equalf(t, len(s.get("/records?"+q.Encode()).unform(t)), c.want, "%+v: records", c)
	}
}
