package s3

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestConstantlySlowStoreSucceeds checks that requests to a store that always exceeds the initial
// timeout succeed after a few attempts.
func TestConstantlySlowStoreSucceeds(t *testing.T) {
	const given, needed = 50 * time.Millisecond, 110 * time.Millisecond
	s := answering(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-time.After(needed):
		case <-r.Context().Done():
			return // it took too long, so nothing is done
		}
		switch {
		case r.URL.Query().Has("list-type"):
			fmt.Fprint(w, "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
		case r.Method == http.MethodGet:
			w.Header().Set("Content-Length", "1")
			fmt.Fprint(w, "x")
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		default:
			w.Header().Set("ETag", `"x"`)
		}
	}, func(o *objstore.S3Options) { o.RequestTimeout, o.BytesPerSecondMin = given, 1<<40 })
	s.attempts = 1
	s.noBulk.Store(true)
	for name, request := range map[string]func() error{
		"put": func() error { return s.Put(t.Context(), "k", objstore.NewBody([]byte("x"))) },
		"get": func() error {
			o, err := s.Get(t.Context(), "k", objstore.Whole)
			if err == nil {
				_, err = io.ReadAll(o.Body)
				err = errors.Join(err, o.Body.Close())
			}
			return err
		},
		"list":   func() error { _, _, err := s.List(t.Context(), objstore.ListOptions{}); return err },
		"delete": func() error { return s.Delete(t.Context(), "k") },
	} {
		// A busy machine may need more than the three necessary attempts.
		var err error
		for range 40 {
			if err = request(); err == nil {
				break
			}
			if classOf(err) != objstore.ErrNoVerdict {
				t.Fatalf("%s: %v", name, err)
			}
		}
		check.NoErrorf(t, err, "%s never succeeds", name)
	}
}

// TestASlowListSucceedsBetweenQuickGets: the look of a takeover makes both, again and again.
func TestASlowListSucceedsBetweenQuickGets(t *testing.T) {
	const given, needed = 100 * time.Millisecond, 220 * time.Millisecond
	s := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if !r.URL.Query().Has("list-type") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		select {
		case <-time.After(needed):
			fmt.Fprint(w, "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
		case <-r.Context().Done():
		}
	}, func(o *objstore.S3Options) { o.RequestTimeout, o.BytesPerSecondMin = given, 1<<40 })
	s.attempts = 1
	var err error
	for range 20 {
		if _, _, err = s.List(t.Context(), objstore.ListOptions{}); err == nil {
			return
		}
		for range 4 {
			if o, err := s.Get(t.Context(), "k", objstore.Whole); err == nil {
				t.Fatalf("read %v, which does not exist", o)
			}
		}
	}
	t.Errorf("a LIST never succeeds: %v", err)
}

func TestAdaptiveTimeout(t *testing.T) {
	p := adaptiveTimeout{base: time.Second}
	want := func(d time.Duration) {
		t.Helper()
		must.Equalf(t, p.limit(), d, "limit")
	}
	want(time.Second)
	// Concurrent timeouts raise the limit once.
	for range 4 {
		p.late(time.Second)
	}
	want(2 * time.Second)
	p.late(2 * time.Second)
	p.late(3 * time.Second)
	want(3 * time.Second) // the maximum
	p.answered(2 * time.Second)
	want(3 * time.Second)
	for _, d := range []time.Duration{2500, 2000, 1500, 1000, 1000} {
		p.answered(10 * time.Millisecond)
		want(d * time.Millisecond)
	}
}
