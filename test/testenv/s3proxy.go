// S3Proxy stands before a real S3 server, counts requests as a bill counts them, and delays them if
// asked to: for tests and measurements. Nothing of it is in the broker.

package testenv

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy is a running proxy. Its methods may be called concurrently.
type S3Proxy struct {
	server *httptest.Server
	delay  atomic.Int64 // nanoseconds

	mu     sync.Mutex // guards what follows
	counts S3Counts
	puts   map[string]S3Sizes
}

// Sizes are the bodies of PUTs.
type S3Sizes struct {
	Count, Bytes, Max int64
}

// New starts a proxy before the server at endpoint ("http://host:port"). The caller calls Close.
func NewS3Proxy(endpoint string) (*S3Proxy, error) {
	target, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("s3 proxy: %w", err)
	}
	p := &S3Proxy{counts: S3Counts{}, puts: map[string]S3Sizes{}}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 256
	forward := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // it is signed
	}}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.count(r)
		if d := time.Duration(p.delay.Load()); d > 0 {
			select {
			case <-time.After(d):
			case <-r.Context().Done(): // its sender has given up, and the store may all the same have got it
			}
		}
		forward.ServeHTTP(w, r)
	}))
	return p, nil
}

// Close ends the proxy when no request is under way any more.
func (p *S3Proxy) Close() { p.server.Close() }

// Spec names prefix in the server's bucket, behind the proxy, as the broker's --bucket has it.
func (p *S3Proxy) Spec(prefix string) string {
	return "s3://" + Bucket + "/" + prefix + "?endpoint=" + p.server.URL + "&region=us-east-1&path-style=true"
}

// SetDelay holds up every request that comes from now on.
func (p *S3Proxy) SetDelay(d time.Duration) { p.delay.Store(int64(d)) }

func (p *S3Proxy) count(r *http.Request) {
	of := S3Request{method(r), object(r)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[of]++
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

// Puts returns the bodies of the PUTs since the start, by what they were of.
func (p *S3Proxy) Puts() map[string]S3Sizes {
	p.mu.Lock()
	defer p.mu.Unlock()
	puts := map[string]S3Sizes{}
	for object, s := range p.puts {
		puts[object] = s
	}
	return puts
}

// method sorts a request as a bill does.
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

// object says what a request is about: the part of the log that a name or prefix is in, or the query for what is about
// the whole bucket.
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
	for _, part := range []string{"wal", "pack", "snap", "view", "meta", "probe"} {
		if strings.Contains(name, "/"+part+"/") {
			return part
		}
	}
	return "other"
}
