// S3Proxy is a proxy in front of a real S3 server for tests and measurements. It counts requests as
// they are billed, and can delay them. The broker does not contain it.

package testenv

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
)

// S3Proxy is a running proxy. Its methods may be called concurrently.
type S3Proxy struct {
	server *httptest.Server
	delays sync.Map     // of time.Duration by method; "": of other methods
	gets   atomic.Int64 // nanoseconds of all GETs
	dir    string       // of the server

	mu     sync.Mutex // guards the fields below
	counts S3Counts
	puts   map[string]S3Sizes
	writes map[string]int
	read   map[string]int64 // bytes of the answers to GETs, by kind of object
}

// S3Sizes are the bodies of PUTs.
type S3Sizes struct {
	Count, Bytes, Max int64
}

// NewS3Proxy starts a proxy in front of the server at endpoint ("http://host:port"). The caller
// calls Close.
func NewS3Proxy(endpoint string) (*S3Proxy, error) { return newS3Proxy(endpoint, httptest.NewServer) }

// NewS3ProxyTLS starts a proxy to which clients connect with TLS. They must trust Certificate.
func NewS3ProxyTLS(endpoint string) (*S3Proxy, error) {
	return newS3Proxy(endpoint, httptest.NewTLSServer)
}

func newS3Proxy(endpoint string, start func(http.Handler) *httptest.Server) (*S3Proxy, error) {
	target, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("s3 proxy: %w", err)
	}
	p := &S3Proxy{counts: S3Counts{}, puts: map[string]S3Sizes{}, writes: map[string]int{}, read: map[string]int64{}}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 256
	// The broker sees an error of the server as 502, and reports it.
	silent := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	forward := &httputil.ReverseProxy{Transport: transport, ErrorLog: silent, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // part of the signature
	}, ModifyResponse: func(r *http.Response) error {
		if method(r.Request) == Get {
			r.Body = &counted{r.Body, p, object(r.Request)}
		}
		return nil
	}}
	p.server = start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.count(r)
		if method(r) == Get {
			began := time.Now()
			defer func() { p.gets.Add(int64(time.Since(began))) }()
		}
		if d := p.delayOf(method(r)); d > 0 {
			select {
			case <-time.After(d):
			// The client has given up, but the store may have received the request.
			case <-r.Context().Done():
			}
		}
		forward.ServeHTTP(w, r)
	}))
	return p, nil
}

// CountedS3 starts a server behind a proxy for a test, and sets the server's keys in the environment of
// all tests, so that the test can be parallel.
func CountedS3(t testing.TB) *S3Proxy {
	t.Helper()
	server := S3ForTest(t)
	p := must.Get(NewS3Proxy(server.Endpoint))(t)
	t.Cleanup(p.Close)
	p.dir = server.dir
	must.NoError(t, errors.Join(os.Setenv("AWS_ACCESS_KEY_ID", AccessKey), os.Setenv("AWS_SECRET_ACCESS_KEY", SecretKey)))
	return p
}

// Folder returns the folder with the objects of a prefix. The proxy must be of CountedS3.
func (p *S3Proxy) Folder(prefix string) string { return filepath.Join(p.dir, Bucket, prefix) }

// Close ends the proxy after the running requests.
func (p *S3Proxy) Close() { p.server.Close() }

// Endpoint returns the address of the proxy, such as "http://host:port".
func (p *S3Proxy) Endpoint() string { return p.server.URL }

// Spec returns the --bucket of a broker for prefix in the server's bucket, through the proxy.
func (p *S3Proxy) Spec(prefix string) string {
	return "s3://" + Bucket + "/" + prefix + "?endpoint=" + p.server.URL + "&region=us-east-1&path-style=true"
}

// Certificate is the certificate of a proxy with TLS, as PEM.
func (p *S3Proxy) Certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
}

// SetDelay delays all further requests, except those of methods with a delay of their own.
func (p *S3Proxy) SetDelay(d time.Duration) { p.delays.Store("", d) }

// SetDelayOf delays all further requests of a method.
func (p *S3Proxy) SetDelayOf(method string, d time.Duration) { p.delays.Store(method, d) }

func (p *S3Proxy) delayOf(method string) time.Duration {
	for _, name := range []string{method, ""} {
		if d, ok := p.delays.Load(name); ok {
			return d.(time.Duration)
		}
	}
	return 0
}

// GetTime returns the time that the GETs since the start took, added up. Divided by the elapsed time
// it is the mean number of GETs in flight.
func (p *S3Proxy) GetTime() time.Duration { return time.Duration(p.gets.Load()) }

func (p *S3Proxy) count(r *http.Request) {
	of := S3Request{method(r), object(r)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[of]++
	// A copy is a PUT with another header, a multipart upload begins with a POST.
	if r.Method == http.MethodPut || r.Method == http.MethodPost && of.Method != Delete {
		const header = "X-Amz-Server-Side-Encryption"
		p.writes[strings.TrimSpace(r.Header.Get(header)+" "+r.Header.Get(header+"-Aws-Kms-Key-Id"))]++
	}
	if of.Method == Put {
		s := p.puts[of.Object]
		s.Count++
		s.Bytes += r.ContentLength
		s.Max = max(s.Max, r.ContentLength)
		p.puts[of.Object] = s
	}
}

// Counts returns the requests since the start.
func (p *S3Proxy) Counts() S3Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts.Sub(nil)
}

// Puts returns the bodies of the PUTs since the start, by kind of object.
func (p *S3Proxy) Puts() map[string]S3Sizes {
	p.mu.Lock()
	defer p.mu.Unlock()
	puts := map[string]S3Sizes{}
	for object, s := range p.puts {
		puts[object] = s
	}
	return puts
}

// Read returns the bytes of the answers to GETs since the start, for a kind of object.
func (p *S3Proxy) Read(object string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.read[object]
}

// counted is the body of an answer whose bytes a proxy counts.
type counted struct {
	io.ReadCloser
	p      *S3Proxy
	object string
}

// Read implements io.Reader.
func (c *counted) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.p.read[c.object] += int64(n)
	return n, err
}

// Encryptions counts the requests since the start that write an object, by the encryption that they
// ask for: "AES256", "aws:kms key", or "" for none.
func (p *S3Proxy) Encryptions() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.writes)
}

// method classifies a request as it is billed.
func method(r *http.Request) string {
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodGet && q.Has("list-type"):
		return List
	case r.Method == http.MethodPost && q.Has("delete"):
		return Delete
	}
	return r.Method
}

// object returns the kind of object of a request: the part of the log, or the query for requests
// about the bucket.
func object(r *http.Request) string {
	q := r.URL.Query()
	name := r.URL.Path
	switch {
	case q.Has("list-type"):
		name = q.Get("prefix")
	case q.Has("delete"):
		return "many"
	case q.Has("lifecycle"):
		return "lifecycle"
	}
	for _, part := range []string{"wal", "pack", "snap", "view", "meta", "peer", "probe"} {
		if strings.Contains(name, "/"+part+"/") {
			return part
		}
	}
	return "other"
}
