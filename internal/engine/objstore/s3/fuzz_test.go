package s3

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// wire is a transport that answers every request with the same bytes.
type wire struct {
	status int
	header []byte // lines, with or without an end
	body   []byte
	cuts   uint64
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	answer := fmt.Appendf(nil, "HTTP/1.1 %d x\r\n", w.status)
	for line := range bytes.Lines(w.header) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			answer = append(append(answer, line...), "\r\n"...)
		}
	}
	answer = append(append(answer, "\r\n"...), w.body...)
	return http.ReadResponse(bufio.NewReader(sebtest.Cut(answer, w.cuts|2)), r)
}

// wired returns a store that uses w.
func wired(f *testing.F, w *wire) *Store {
	s, err := Open(f.Context(), objstore.S3Options{Bucket: "b", Prefix: "p", Endpoint: "http://store.example", PathStyle: true, AccessKey: "a", SecretKey: "s"})
	must.NoError(f, err)
	f.Cleanup(func() { _ = s.Close() })
	s.http.Transport, s.attempts = w, 1
	return s
}

// oneOf fails unless err is nil or has exactly one of the classes.
func oneOf(t *testing.T, err error) error {
	class := classOf(err)
	if err != nil && (class == nil || class != objstore.ErrThrottled && !slices.Contains(classes, class)) {
		t.Fatalf("%v has no class, or two: %v", err, class)
	}
	return class
}

// FuzzErrorAnswers gives arbitrary responses to every operation except reads. The verdict is of
// exactly one class, and a class about an object comes only with its code.
func FuzzErrorAnswers(f *testing.F) {
	for op := range uint8(4) {
		for _, code := range []string{"PreconditionFailed", "NoSuchKey", "SlowDown", "AccessDenied", ""} {
			for _, status := range []uint16{200, 301, 404, 412, 500} {
				f.Add(op, status-200, []byte("ETag: \"x\"\n"), []byte(errorXML(code)), uint64(7))
			}
		}
		f.Add(op, uint16(0), []byte("ETag: \"x\"\nContent-Length: 0"), []byte{}, uint64(0))
	}
	f.Add(uint8(1), uint16(0), []byte("Transfer-Encoding: chunked"), []byte("5\r\n<Dele\r\n0\r\n\r\n"), uint64(0))
	f.Add(uint8(2), uint16(0), []byte{}, []byte("<DeleteResult><Error><Key>p/k</Key><Code>AccessDenied</Code></Error></DeleteResult>"), uint64(9))
	f.Add(uint8(0), uint16(212), []byte{}, []byte("<Error><Code>Precondition</Code><Code>Failed</Code></Error>"), uint64(9))
	var w wire
	s := wired(f, &w)
	body := objstore.NewBody([]byte("val"), []byte("ue"))
	f.Fuzz(func(t *testing.T, op uint8, status uint16, header, answer []byte, cuts uint64) {
		w = wire{200 + int(status%800), header, answer, cuts}
		s.noBulk.Store(false)
		var err error
		switch op % 4 {
		case 0:
			err = s.Put(t.Context(), "k", body)
		case 1:
			err = s.Delete(t.Context(), "k")
		case 2:
			err = s.Delete(t.Context(), "k", "l")
		case 3:
			_, err = s.LifecycleWarning(t.Context())
		}
		switch oneOf(t, err) {
		case objstore.ErrExists:
			if op%4 != 0 || !bytes.Contains(answer, []byte("PreconditionFailed")) && !bytes.ContainsAny(answer, "&]") && !chunked(header) {
				t.Fatalf("exists, by %d %q", w.status, answer)
			}
		case objstore.ErrNotFound:
			t.Fatalf("not found, by %d %q", w.status, answer)
		case nil:
			if op%4 == 0 && (w.status != 200 || !bytes.Contains(bytes.ToLower(header), []byte("etag"))) {
				t.Fatalf("stored, by %d %q", w.status, answer)
			}
		}
	})
}

// chunked reports whether the body is encoded.
func chunked(header []byte) bool {
	return bytes.Contains(bytes.ToLower(header), []byte("transfer-encoding"))
}

// FuzzReadAnswers gives arbitrary responses to a read of a range. The result is a part of the
// response with the announced length, or an error of one class.
func FuzzReadAnswers(f *testing.F) {
	f.Add(uint16(0), []byte("Content-Length: 10"), []byte("0123456789"), int64(0), int64(-1), uint64(0))
	f.Add(uint16(0), []byte("Content-Length: 10"), []byte("0123456789"), int64(0), int64(4), uint64(5))
	f.Add(uint16(0), []byte("Content-Length: 10"), []byte("01234"), int64(0), int64(-1), uint64(5))
	f.Add(uint16(6), []byte("Content-Length: 4\nContent-Range: bytes 3-6/10"), []byte("3456"), int64(3), int64(4), uint64(5))
	f.Add(uint16(6), []byte("Content-Range: bytes 3-6/10"), []byte("3456789"), int64(3), int64(4), uint64(4))
	f.Add(uint16(6), []byte("Content-Range: bytes 0--6/-5"), []byte("3456789"), int64(0), int64(4), uint64(4))
	f.Add(uint16(6), []byte("Content-Range: bytes 0-9/10\nContent-Encoding: gzip"), []byte("3456789"), int64(0), int64(10), uint64(4))
	f.Add(uint16(204), []byte{}, []byte(errorXML("NoSuchKey")), int64(0), int64(-1), uint64(5))
	f.Add(uint16(204), []byte{}, []byte(errorXML("NoSuchBucket")), int64(0), int64(-1), uint64(5))
	f.Add(uint16(216), []byte{}, []byte(errorXML("InvalidRange")), int64(0), int64(10), uint64(5))
	var w wire
	s := wired(f, &w)
	f.Fuzz(func(t *testing.T, status uint16, header, answer []byte, offset, length int64, cuts uint64) {
		w = wire{200 + int(status%800), header, answer, cuts}
		o, err := s.Get(t.Context(), "k", objstore.Range{Offset: offset, Length: length})
		if class := oneOf(t, err); err != nil {
			if class == objstore.ErrExists || class == objstore.ErrNotFound && (w.status != 404 || !bytes.Contains(answer, []byte("NoSuchKey")) && !bytes.ContainsAny(answer, "&]") && !chunked(header)) {
				t.Fatalf("%v, by %d %q", err, w.status, answer)
			}
			return
		}
		got, err := io.ReadAll(o.Body)
		if closeErr := o.Body.Close(); err == nil {
			err = closeErr
		}
		if class := oneOf(t, err); class != nil && class != objstore.ErrNoVerdict {
			t.Fatalf("reading: %v", err)
		}
		if !bytes.Contains(answer, got) && !chunked(header) || length > 0 && int64(len(got)) > length || o.Size < -1 {
			t.Fatalf("%q of %d bytes, by %d %q", got, o.Size, w.status, answer)
		}
		if err == nil && o.Size >= 0 {
			want := max(o.Size-offset, 0)
			if length > 0 {
				want = min(want, length)
			}
			must.Equalf(t, int64(len(got)), want, "%d bytes of an object of %d, range %d+%d", len(got), o.Size, offset, length)
		}
	})
}

// FuzzListings gives arbitrary responses to a listing. The result has requested names, in order and
// valid, or is an error of one class.
func FuzzListings(f *testing.F) {
	f.Add(uint16(0), []byte(listing(lastPage, "p/a", "p/b")), "", "", uint8(0))
	f.Add(uint16(0), []byte(listing(notLast, "p/a", "p/b", "p/c/d")), "", "a", uint8(2))
	f.Add(uint16(0), []byte(listing(lastPage, "p/a b", "p/c", "p/sub/", "q")), "c", "", uint8(1))
	f.Add(uint16(0), []byte(strings.Replace(listing(lastPage, "p/a"), "<Size>5", "<Size>-5", 1)), "", "", uint8(0))
	f.Add(uint16(0), []byte(listing("", "p/a")), "", "", uint8(0))
	f.Add(uint16(303), []byte(errorXML("SlowDown")), "", "", uint8(0))
	var w wire
	s := wired(f, &w)
	f.Fuzz(func(t *testing.T, status uint16, answer []byte, prefix, after string, limit uint8) {
		w = wire{200 + int(status%800), nil, answer, math.MaxUint64}
		if strings.Count(string(answer), "<Contents>") > 0 && !strings.Contains(string(answer), "p/") {
			return // a page of foreign names is followed by the next, here endlessly
		}
		entries, more, err := s.List(t.Context(), objstore.ListOptions{Prefix: prefix, After: after, Max: int(limit)})
		if class := oneOf(t, err); class == objstore.ErrExists || class == objstore.ErrNotFound {
			t.Fatal(err)
		}
		if err != nil && (entries != nil || more) || len(entries) > objstore.PageSize(int(limit)) {
			t.Fatalf("%d entries, %v, %v", len(entries), more, err)
		}
		last := after
		for _, e := range entries {
			if e.Key <= last || !objstore.ValidKey(e.Key) || !strings.HasPrefix(e.Key, prefix) || e.Size < 0 {
				t.Fatalf("%+v after %q, asked for %q", e, last, prefix)
			}
			last = e.Key
		}
	})
}

// FuzzPartsReader checks that a body returns its parts in order, however it is read and sought.
func FuzzPartsReader(f *testing.F) {
	f.Add([]byte("some bytes in parts"), []byte{3, 0, 4, 1, 200}, []byte{5, 130, 7, 255, 3, 1, 90, 9})
	f.Fuzz(func(t *testing.T, all, cuts, steps []byte) {
		var parts [][]byte
		rest := all
		for _, c := range cuts {
			n := min(int(c), len(rest))
			parts, rest = append(parts, rest[:n]), rest[n:]
		}
		ours, want := newPartsReader(objstore.NewBody(append(parts, rest)...)), bytes.NewReader(all)
		a, b := make([]byte, 128), make([]byte, 128)
		for i := 0; i+1 < len(steps); i += 2 {
			n := int(steps[i+1])
			if steps[i] < 128 {
				n1, err1 := ours.Read(a[:n%128])
				n2, err2 := want.Read(b[:n%128])
				if n%128 > 0 && (n1 != n2 || err1 != err2 || !bytes.Equal(a[:n1], b[:n2])) {
					t.Fatalf("read of %d: %d %v, want %d %v", n, n1, err1, n2, err2)
				}
				continue
			}
			whence, offset := int(steps[i])%3, int64(n)-100
			before := ours.at
			at, err := ours.Seek(offset, whence)
			if base := []int64{0, before, int64(len(all))}[whence] + offset; base < 0 || base > int64(len(all)) {
				if err == nil || at != before {
					t.Fatalf("seek to %d of %d: %d, %v", base, len(all), at, err)
				}
				continue
			}
			if wantAt, _ := want.Seek(offset, whence); err != nil || at != wantAt {
				t.Fatalf("seek: %d %v, want %d", at, err, wantAt)
			}
		}
	})
}
