package s3

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// answering opens a store whose server uses handler. The context of the handler's request ends with
// the test.
func answering(t testing.TB, handler http.HandlerFunc, change ...func(*objstore.S3Options)) *Store {
	t.Helper()
	test := t.Context()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer context.AfterFunc(test, cancel)()
		handler(w, r.WithContext(ctx))
		cancel()
	}))
	t.Cleanup(server.Close)
	o := objstore.S3Options{Bucket: "b", Prefix: "p", Endpoint: server.URL, PathStyle: true, AccessKey: "a", SecretKey: "s"}
	for _, c := range change {
		c(&o)
	}
	s := must.Get(Open(t.Context(), o))(t)
	s.pause = time.Microsecond
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func errorXML(code string) string {
	return `<?xml version="1.0" encoding="UTF-8"?>` + "\n<Error><Code>" + code + "</Code><Message>m</Message></Error>"
}

var classes = []error{objstore.ErrExists, objstore.ErrNotFound, objstore.ErrNoVerdict, objstore.ErrRefused}

func classOf(err error) error {
	var found error
	for _, class := range classes {
		if errors.Is(err, class) {
			if found != nil {
				return fmt.Errorf("two classes: %w", err)
			}
			found = class
		}
	}
	if found == objstore.ErrNoVerdict && errors.Is(err, objstore.ErrThrottled) {
		return objstore.ErrThrottled
	}
	return found
}

// requests runs each operation once and returns its errors by name.
func requests(t testing.TB, s *Store) map[string]error {
	t.Helper()
	errs := map[string]error{}
	errs["put"] = s.Put(t.Context(), "k", objstore.NewBody([]byte("value")))
	o, err := s.Get(t.Context(), "k", objstore.Whole)
	if err == nil {
		_, err = io.ReadAll(o.Body)
		err = errors.Join(err, o.Body.Close())
	}
	errs["get"] = err
	_, _, errs["list"] = s.List(t.Context(), objstore.ListOptions{})
	errs["delete"] = s.Delete(t.Context(), "k")
	errs["bulk"] = s.Delete(t.Context(), "k", "l")
	return errs
}

// verdicts are error classes by operation; "all" is for the operations without an entry.
type verdicts map[string]error

// answers are responses of a server, and the verdict of each operation.
var answers = []struct {
	status int
	body   string
	want   verdicts
}{
	{412, errorXML("PreconditionFailed"), verdicts{"put": objstore.ErrExists, "all": objstore.ErrNoVerdict}},
	{200, errorXML("PreconditionFailed"), verdicts{"put": objstore.ErrExists, "get": nil, "all": objstore.ErrNoVerdict}},
	{412, "", verdicts{"all": objstore.ErrNoVerdict}},
	{412, "<html>no</html>", verdicts{"all": objstore.ErrNoVerdict}},
	{412, "<html><Code>PreconditionFailed</Code></html>", verdicts{"all": objstore.ErrNoVerdict}},
	{409, errorXML("ConditionalRequestConflict"), verdicts{"all": objstore.ErrNoVerdict}},
	{409, errorXML("OperationAborted"), verdicts{"all": objstore.ErrNoVerdict}},
	{409, "", verdicts{"all": objstore.ErrNoVerdict}},
	{404, errorXML("NoSuchKey"), verdicts{"get": objstore.ErrNotFound, "delete": nil, "all": objstore.ErrRefused}},
	{404, errorXML("NoSuchBucket"), verdicts{"all": objstore.ErrRefused}},
	{404, errorXML("NoSuchVersion"), verdicts{"all": objstore.ErrRefused}},
	{404, "", verdicts{"all": objstore.ErrRefused}},
	{404, "404 page not found", verdicts{"all": objstore.ErrRefused}},
	{404, "<Error><Code>NoSuchKey", verdicts{"get": objstore.ErrNotFound, "delete": nil, "all": objstore.ErrRefused}},
	{500, errorXML("NoSuchKey"), verdicts{"all": objstore.ErrNoVerdict}},
	{500, errorXML("InternalError"), verdicts{"all": objstore.ErrNoVerdict}},
	{500, "", verdicts{"all": objstore.ErrNoVerdict}},
	{502, "<html>Bad Gateway</html>", verdicts{"all": objstore.ErrNoVerdict}},
	{503, errorXML("SlowDown"), verdicts{"all": objstore.ErrThrottled}},
	{503, errorXML("ServiceUnavailable"), verdicts{"all": objstore.ErrThrottled}},
	{503, "", verdicts{"all": objstore.ErrNoVerdict}},
	{429, "", verdicts{"all": objstore.ErrThrottled}},
	{429, errorXML("TooManyRequests"), verdicts{"all": objstore.ErrThrottled}},
	{504, "", verdicts{"all": objstore.ErrNoVerdict}},
	{408, "", verdicts{"all": objstore.ErrNoVerdict}},
	{400, errorXML("RequestTimeout"), verdicts{"all": objstore.ErrNoVerdict}},
	{400, errorXML("BadDigest"), verdicts{"all": objstore.ErrNoVerdict}},
	{400, errorXML("IncompleteBody"), verdicts{"all": objstore.ErrNoVerdict}},
	{400, errorXML("XAmzContentSHA256Mismatch"), verdicts{"all": objstore.ErrNoVerdict}},
	{400, errorXML("AuthorizationHeaderMalformed"), verdicts{"all": objstore.ErrRefused}},
	{400, errorXML("ExpiredToken"), verdicts{"all": objstore.ErrRefused}},
	{400, errorXML("EntityTooLarge"), verdicts{"all": objstore.ErrRefused}},
	{400, "", verdicts{"all": objstore.ErrRefused}},
	{401, "", verdicts{"all": objstore.ErrRefused}},
	{403, errorXML("AccessDenied"), verdicts{"all": objstore.ErrRefused}},
	{403, errorXML("RequestTimeTooSkewed"), verdicts{"all": objstore.ErrRefused}},
	{403, errorXML("SignatureDoesNotMatch"), verdicts{"all": objstore.ErrRefused}},
	{403, "", verdicts{"all": objstore.ErrRefused}},
	{301, errorXML("PermanentRedirect"), verdicts{"all": objstore.ErrRefused}},
	{307, errorXML("TemporaryRedirect"), verdicts{"all": objstore.ErrRefused}},
	{304, "", verdicts{"all": objstore.ErrRefused}},
	{501, errorXML("NotImplemented"), verdicts{"all": objstore.ErrRefused}},
	{501, "", verdicts{"all": objstore.ErrNoVerdict}},
	{507, errorXML("XMinioStorageFull"), verdicts{"all": objstore.ErrRefused}},
	{200, errorXML("SlowDown"), verdicts{"get": nil, "all": objstore.ErrThrottled}},
	{200, errorXML("AccessDenied"), verdicts{"get": nil, "all": objstore.ErrRefused}},
	{200, errorXML("InternalError"), verdicts{"get": nil, "all": objstore.ErrNoVerdict}},
	{200, errorXML("SomethingNew"), verdicts{"get": nil, "all": objstore.ErrNoVerdict}},
	{200, "<html>sign in to the hotel network</html>", verdicts{"get": nil, "all": objstore.ErrNoVerdict}},
	{200, "", verdicts{"get": nil, "delete": nil, "bulk": nil, "all": objstore.ErrNoVerdict}},
	{202, "", verdicts{"delete": nil, "bulk": nil, "all": objstore.ErrNoVerdict}},
	{206, "", verdicts{"delete": nil, "bulk": nil, "all": objstore.ErrNoVerdict}},
}

func TestErrorAnswers(t *testing.T) {
	for _, c := range answers {
		name := fmt.Sprintf("%d %s", c.status, strings.TrimSpace(c.body))
		t.Run(name, func(t *testing.T) {
			s := answering(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			for op, err := range requests(t, s) {
				want, named := c.want[op]
				if !named {
					want = c.want["all"]
				}
				if got := classOf(err); got != want {
					t.Errorf("%s: %v, want the class %v", op, err, want)
				}
			}
		})
	}
}

func TestAnswersThatNeverCome(t *testing.T) {
	t.Parallel()
	hijack := func(w http.ResponseWriter, text string) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, text)
		_ = c.Close()
	}
	for name, handler := range map[string]http.HandlerFunc{
		"reset":        func(w http.ResponseWriter, _ *http.Request) { hijack(w, "") },
		"garbage":      func(w http.ResponseWriter, _ *http.Request) { hijack(w, "SSH-2.0-OpenSSH\r\n\r\n") },
		"half headers": func(w http.ResponseWriter, _ *http.Request) { hijack(w, "HTTP/1.1 200 OK\r\nContent-Le") },
		"half an error": func(w http.ResponseWriter, _ *http.Request) {
			hijack(w, "HTTP/1.1 412 Precondition Failed\r\nContent-Length: 500\r\n\r\n"+errorXML("PreconditionFailed"))
		},
		"hang": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		},
		"hang without reading": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"hang after the headers": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Length", "100")
			w.Header().Set("ETag", `"x"`)
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := answering(t, handler, func(o *objstore.S3Options) {
				o.RequestTimeout = 50 * time.Millisecond
				o.BytesPerSecondMin = 1 << 40
			})
			s.attempts = 2
			for op, err := range requests(t, s) {
				if classOf(err) != objstore.ErrNoVerdict {
					t.Errorf("%s: %v", op, err)
				}
			}
		})
	}
	t.Run("connection refused", func(t *testing.T) {
		s := must.Get(Open(t.Context(), objstore.S3Options{Bucket: "b", Endpoint: "http://127.0.0.1:1", PathStyle: true, AccessKey: "a", SecretKey: "s"}))(t)
		s.pause = time.Microsecond
		for op, err := range requests(t, s) {
			if classOf(err) != objstore.ErrNoVerdict {
				t.Errorf("%s: %v", op, err)
			}
		}
	})
	t.Run("unknown certificate", func(t *testing.T) {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
		server.StartTLS()
		defer server.Close()
		s := must.Get(Open(t.Context(), objstore.S3Options{Bucket: "b", Endpoint: server.URL, PathStyle: true, AccessKey: "a", SecretKey: "s"}))(t)
		if err := s.Put(t.Context(), "k", objstore.NewBody([]byte("x"))); classOf(err) != objstore.ErrRefused {
			t.Errorf("got %v", err)
		}
	})
}

// TestPutTouchesNoByteAfterItHasReturned overwrites the parts as soon as Put returns while the
// server still reads. The race detector reports a transport that reads them.
func TestPutTouchesNoByteAfterItHasReturned(t *testing.T) {
	t.Parallel()
	var servers sync.WaitGroup
	s := answering(t, func(w http.ResponseWriter, r *http.Request) {
		servers.Add(1)
		defer servers.Done()
		_, _ = io.ReadFull(r.Body, make([]byte, 1000))
		if r.URL.Path == "/b/p/early" {
			w.WriteHeader(http.StatusPreconditionFailed)
			_, _ = io.WriteString(w, errorXML("PreconditionFailed"))
			w.(http.Flusher).Flush()
		}
		_, _ = io.Copy(io.Discard, r.Body)
	}, func(o *objstore.S3Options) { o.RequestTimeout = 20 * time.Millisecond; o.BytesPerSecondMin = 1 << 40 })
	for range sebtest.Runs(5, 1) {
		for _, key := range []string{"early", "never"} {
			buffer := make([]byte, 20<<20)
			err := s.Put(t.Context(), key, objstore.NewBody(buffer[:5<<20], buffer[5<<20:]))
			for i := range buffer {
				buffer[i] = 1
			}
			if class := classOf(err); class != objstore.ErrExists && class != objstore.ErrNoVerdict {
				t.Fatalf("%s: %v", key, err)
			}
		}
	}
	servers.Wait()
}

func TestAPutIsOneRequest(t *testing.T) {
	var n atomic.Int64
	s := answering(t, func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusInternalServerError)
	})
	for i := range 3 {
		if err := s.Put(t.Context(), "k", objstore.NewBody([]byte("x"))); classOf(err) != objstore.ErrNoVerdict {
			t.Fatal(err)
		}
		must.Equalf(t, n.Load(), int64(i+1), "requests for %d puts", i+1)
	}
	_, _, err := s.List(t.Context(), objstore.ListOptions{})
	if classOf(err) != objstore.ErrNoVerdict || n.Load() != 3+3 {
		t.Fatalf("a list made %d requests: %v", n.Load()-3, err)
	}
	_, _ = s.Get(t.Context(), "k", objstore.Whole)
	_, _ = s.LifecycleWarning(t.Context()) // billed as a GET
	_ = s.Delete(t.Context(), "k")
	got := s.Requests()
	if got.Get < 4 || got != (objstore.Requests{Put: 3, List: 3, Get: got.Get, Delete: 3}) || got.Put+got.List+got.Get+got.Delete != n.Load() {
		t.Errorf("%+v of %d requests", got, n.Load())
	}
}

// TestASecondPutSendsTheSame checks that a body can be sent again completely after the first
// attempt was refused halfway.
func TestASecondPutSendsTheSame(t *testing.T) {
	value := make([]byte, 3<<20)
	for i := range value {
		value[i] = byte(i * 7 >> 3)
	}
	var bodies [][]byte
	s := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if len(bodies) == 0 {
			half, _ := io.ReadAll(io.LimitReader(r.Body, int64(len(value)/2)))
			bodies = append(bodies, half)
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, errorXML("SlowDown"))
			return
		}
		all, _ := io.ReadAll(r.Body)
		bodies = append(bodies, all)
		w.Header().Set("ETag", `"x"`)
	})
	b := objstore.NewBody(value[:100], value[100:1<<20], value[1<<20:])
	if err := s.Put(t.Context(), "k", b); classOf(err) != objstore.ErrThrottled && classOf(err) != objstore.ErrNoVerdict {
		t.Fatal(err)
	}
	must.NoError(t, s.Put(t.Context(), "k", b))
	if len(bodies) != 2 || !bytes.Equal(bodies[0], value[:len(value)/2]) || !bytes.Equal(bodies[1], value) {
		t.Fatalf("%d requests, the last of %d bytes", len(bodies), len(bodies[len(bodies)-1]))
	}
}

func TestWhatAPutSends(t *testing.T) {
	var got http.Header
	var body []byte
	handler := func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("ETag", `"x"`)
	}
	value := []byte("some value")
	b := objstore.NewBody(value[:3], value[3:])
	b.CRC32C, b.HasCRC = crc32.Checksum(value, crc32.MakeTable(crc32.Castagnoli)), true
	for _, without := range []bool{false, true} {
		s := answering(t, handler, func(o *objstore.S3Options) { o.NoChecksum = without })
		must.NoError(t, s.Put(t.Context(), "k", b))
		sum := base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, b.CRC32C))
		if without {
			sum = ""
		}
		if got.Get("If-None-Match") != "*" || got.Get("x-amz-checksum-crc32c") != sum || string(body) != string(value) {
			t.Fatalf("%q with %v", body, got)
		}
		for _, never := range []string{"Expect", "X-Amz-Trailer", "X-Amz-Sdk-Checksum-Algorithm", "Transfer-Encoding"} {
			must.Equalf(t, got.Get(never), "", "sent %s", never)
		}
	}
}

func TestBodiesOfGet(t *testing.T) {
	const object = "0123456789"
	for name, c := range map[string]struct {
		r      objstore.Range
		status int
		header map[string]string
		body   string
		want   string
		fails  bool
	}{
		"a range":                 {objstore.Range{Offset: 2, Length: 3}, 206, map[string]string{"Content-Range": "bytes 2-4/10"}, "234", "234", false},
		"ignored range from 0":    {objstore.Range{Offset: 0, Length: 3}, 200, map[string]string{"Content-Length": "10"}, object, "012", false},
		"ignored range from 2":    {objstore.Range{Offset: 2, Length: 3}, 200, map[string]string{"Content-Length": "10"}, object, "", true},
		"another range":           {objstore.Range{Offset: 2, Length: 3}, 206, map[string]string{"Content-Range": "bytes 3-5/10"}, "345", "", true},
		"a shorter range":         {objstore.Range{Offset: 2, Length: 3}, 206, map[string]string{"Content-Range": "bytes 2-3/10"}, "23", "", true},
		"a longer range":          {objstore.Range{Offset: 2, Length: 3}, 206, map[string]string{"Content-Range": "bytes 2-5/10"}, "2345", "", true},
		"a range without a total": {objstore.Range{Offset: 2, Length: 3}, 206, map[string]string{"Content-Range": "bytes 2-4/*"}, "234", "", true},
		"a part without asking":   {objstore.Whole, 206, map[string]string{"Content-Range": "bytes 0-4/10"}, "01234", "", true},
		"a body that ends early":  {objstore.Whole, 200, map[string]string{"Content-Length": "10"}, "01234", "01234", true},
		"a range that ends early": {objstore.Range{Offset: 2, Length: 5}, 206, map[string]string{"Content-Range": "bytes 2-6/10"}, "23", "23", true},
		"compressed by a proxy":   {objstore.Whole, 200, map[string]string{"Content-Encoding": "gzip"}, object, "", true},
		"without a length":        {objstore.Whole, 200, map[string]string{"Transfer-Encoding": "chunked"}, object, object, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := answering(t, func(w http.ResponseWriter, _ *http.Request) {
				for k, v := range c.header {
					w.Header().Set(k, v)
				}
				w.WriteHeader(c.status)
				w.(http.Flusher).Flush()
				_, _ = io.WriteString(w, c.body)
			})
			o, err := s.Get(t.Context(), "k", c.r)
			var got []byte
			if err == nil {
				got, err = io.ReadAll(o.Body)
				if closeErr := o.Body.Close(); closeErr != nil && err == nil {
					t.Fatal(closeErr)
				}
			}
			if string(got) != c.want || (err != nil) != c.fails || err != nil && classOf(err) != objstore.ErrNoVerdict {
				t.Fatalf("%q, %v", got, err)
			}
		})
	}
}

func TestABodyThatStalls(t *testing.T) {
	s := answering(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "01234")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, func(o *objstore.S3Options) { o.RequestTimeout = 100 * time.Millisecond })
	o := must.Get(s.Get(t.Context(), "k", objstore.Whole))(t)
	got, err := io.ReadAll(o.Body)
	if string(got) != "01234" || classOf(err) != objstore.ErrNoVerdict || !errors.Is(err, errStalled) {
		t.Fatalf("%q, %v", got, err)
	}
	must.NoError(t, o.Body.Close())
}

// TestASlowReaderIsNoStall reads more slowly than the timeout for the store.
func TestASlowReaderIsNoStall(t *testing.T) {
	const size = 1 << 20
	s := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, size))
	}, func(o *objstore.S3Options) { o.RequestTimeout = 200 * time.Millisecond })
	o := must.Get(s.Get(t.Context(), "k", objstore.Whole))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	<-ctx.Done() // longer than the timeout
	if got, err := io.ReadAll(o.Body); len(got) != size || err != nil {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	must.NoError(t, o.Body.Close())
}
