// Package s3 stores objects in a bucket that is accessed by the S3 protocol.
package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sebbroker/seb/internal/engine/objstore"
)

const (
	defaultRequestTimeout = 10 * time.Second
	defaultBytesPerSecond = 1 << 20
)

// Store is a prefix of a bucket that is accessed by the S3 protocol. Safe for concurrent use. A Put is
// one request, which the caller repeats if needed: a retry here could turn our own success into
// ErrExists. Get, List and Delete repeat a request without verdict twice.
type Store struct {
	options  objstore.S3Options
	prefix   string // "" or ending in a slash
	client   *awss3.Client
	http     *http.Client
	clock    storeClock
	sent     sentRequests
	noBulk   atomic.Bool // the store does not support DeleteObjects
	reads    adaptiveTimeout
	lists    adaptiveTimeout // a store may be slow at them alone
	writes   adaptiveTimeout // PUT and DELETE
	attempts int             // for idempotent requests
	pause    time.Duration
}

// Open returns the store. It makes no request.
func Open(ctx context.Context, o objstore.S3Options) (*Store, error) {
	o.Prefix = strings.Trim(o.Prefix, "/")
	o.Endpoint = strings.TrimSuffix(o.Endpoint, "/")
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("open s3 store: %w", err)
	}
	o.RequestTimeout = cmp.Or(o.RequestTimeout, defaultRequestTimeout)
	o.BytesPerSecondMin = cmp.Or(o.BytesPerSecondMin, defaultBytesPerSecond)
	settings, err := loadSettings(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open s3 store: %w", err)
	}
	if settings.Region == "" {
		return nil, errors.New("open s3 store: no region: add ?region= or set AWS_REGION")
	}
	s := &Store{options: o, http: newHTTPClient(), attempts: 3, pause: 100 * time.Millisecond}
	s.reads.base, s.lists.base, s.writes.base = o.RequestTimeout, o.RequestTimeout, o.RequestTimeout
	if o.Prefix != "" {
		s.prefix = o.Prefix + "/"
	}
	s.client = awss3.NewFromConfig(settings, func(c *awss3.Options) {
		c.HTTPClient = &tap{client: s.http, clock: &s.clock, sent: &s.sent}
		c.UsePathStyle = o.PathStyle
		if o.Endpoint != "" {
			c.BaseEndpoint = &o.Endpoint
		}
		// The library's retries would turn our own success into "the name is taken".
		c.Retryer = aws.NopRetryer{}
		// The library's default checksums break stores that do not support them. Put sends the
		// checksum of Body.
		c.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		c.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		// "Expect: 100-continue" costs a round trip on every large body.
		c.ContinueHeaderThresholdBytes = -1
	})
	return s, nil
}

// newHTTPClient returns a client that follows no redirects (they mean a wrong region) and does not
// decompress. No budget counts the buffers of its connections, which last for a minute after a burst of
// requests. They are as long as a record of TLS; larger parts of a body do not go through them.
func newHTTPClient() *http.Client {
	const connections, bufferBytes = 64, 16 << 10
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second,
			MaxIdleConnsPerHost: connections,
			IdleConnTimeout:     time.Minute,
			DisableCompression:  true,
			ReadBufferSize:      bufferBytes,
			WriteBufferSize:     bufferBytes,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ClockSkew implements objstore.Clocked. The Date header has whole seconds, so the skew is accurate to about
// a second.
func (s *Store) ClockSkew() (time.Duration, bool) { return s.clock.skew() }

// Requests implements objstore.Counting.
func (s *Store) Requests() objstore.Requests {
	return objstore.Requests{Put: s.sent.put.Load(), List: s.sent.list.Load(), Get: s.sent.get.Load(), Delete: s.sent.delete.Load()}
}

// Close closes idle connections. Running calls continue.
func (s *Store) Close() error {
	s.http.CloseIdleConnections()
	return nil
}

// String implements objstore.Store.
func (s *Store) String() string {
	name := "s3://" + s.options.Bucket
	if s.options.Prefix != "" {
		name += "/" + s.options.Prefix
	}
	if s.options.Endpoint != "" {
		name += "?endpoint=" + s.options.Endpoint
	}
	return name
}

// storeClock compares the local clock with the store's.
type storeClock struct {
	newest atomic.Pointer[dated]
}

// dated is the time in the newest response: at the local time at, the store's clock showed date.
type dated struct{ at, date time.Time }

// datedWithin is the longest duration of a request whose Date counts, except for the first. The
// Date of a large PUT may be from any moment of its duration.
const datedWithin = 10 * time.Second

// observe records the Date header of a response to a request sent at begin.
func (c *storeClock) observe(begin time.Time, header http.Header) {
	date, err := http.ParseTime(header.Get("Date"))
	took := time.Since(begin)
	if err != nil || took > datedWithin && c.newest.Load() != nil {
		return
	}
	c.newest.Store(&dated{at: begin.Add(took / 2), date: date.Add(500 * time.Millisecond)})
}

// skew uses the current local clock: if it was set since the newest response, the skew changes by
// that much.
func (c *storeClock) skew() (time.Duration, bool) {
	d := c.newest.Load()
	if d == nil {
		return 0, false
	}
	now := time.Now()
	passed := now.Sub(d.at) // by the monotonic clock
	return now.Round(0).Sub(d.date.Add(passed)), true
}

// LifecycleWarning reads the bucket's lifecycle rules. It returns a warning if a rule deletes
// objects of this store by age, or moves them to storage that cannot be read at once: seals must be
// kept permanently (rule R7). "" means no such rule. An error means that the rules cannot be read,
// for example without permission. A store without lifecycle rules has none.
func (s *Store) LifecycleWarning(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.RequestTimeout, errStalled)
	defer cancel()
	out, x, err := send(ctx, opLifecycle, func(ctx context.Context) (*awss3.GetBucketLifecycleConfigurationOutput, error) {
		return s.client.GetBucketLifecycleConfiguration(ctx, &awss3.GetBucketLifecycleConfigurationInput{Bucket: &s.options.Bucket})
	})
	if x.code == "NoSuchLifecycleConfiguration" || x.code == "NotImplemented" {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var harmful []string
	for _, rule := range out.Rules {
		prefix := rulePrefix(rule)
		overlaps := strings.HasPrefix(prefix, s.prefix) || strings.HasPrefix(s.prefix, prefix)
		if rule.Status == types.ExpirationStatusEnabled && overlaps {
			if harm := ruleHarm(rule); harm != "" {
				harmful = append(harmful, fmt.Sprintf("rule %q %s", aws.ToString(rule.ID), harm))
			}
		}
	}
	if len(harmful) == 0 {
		return "", nil
	}
	return fmt.Sprintf("lifecycle rules of bucket %s will destroy this log: %s", s.options.Bucket, strings.Join(harmful, ", ")), nil
}

func rulePrefix(rule types.LifecycleRule) string {
	if f := rule.Filter; f != nil {
		if f.And != nil && f.And.Prefix != nil {
			return *f.And.Prefix
		}
		if f.Prefix != nil {
			return *f.Prefix
		}
	}
	//lint:ignore SA1019 old rules have the prefix here
	return aws.ToString(rule.Prefix)
}

func ruleHarm(rule types.LifecycleRule) string {
	if e := rule.Expiration; e != nil && (e.Days != nil || e.Date != nil) {
		return "expires objects"
	}
	for _, t := range rule.Transitions {
		if t.StorageClass == types.TransitionStorageClassGlacier || t.StorageClass == types.TransitionStorageClassDeepArchive {
			return "archives objects"
		}
	}
	return ""
}

// Versioned reports whether the bucket keeps old versions of objects.
func (s *Store) Versioned(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.RequestTimeout, errStalled)
	defer cancel()
	out, x, err := send(ctx, opVersioning, func(ctx context.Context) (*awss3.GetBucketVersioningOutput, error) {
		return s.client.GetBucketVersioning(ctx, &awss3.GetBucketVersioningInput{Bucket: &s.options.Bucket})
	})
	if x.code == "NotImplemented" {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return out.Status == types.BucketVersioningStatusEnabled, nil
}

var errDetached = errors.New("request body was released")

// partsReader reads the parts of a Body in order. The transport may hold it long after the request,
// so Put detaches the parts before it returns.
type partsReader struct {
	mu       sync.Mutex // guards all fields; held while bytes are copied
	parts    [][]byte
	size     int64
	at       int64 // position
	part     int   // index of the part with the next byte, or of an empty one before it
	offset   int   // position in that part
	detached bool
}

func newPartsReader(b objstore.Body) *partsReader {
	return &partsReader{parts: b.Parts, size: b.Size}
}

// Read implements io.Reader.
func (r *partsReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.detached {
		return 0, errDetached
	}
	done := 0
	for done < len(p) && r.part < len(r.parts) {
		n := copy(p[done:], r.parts[r.part][r.offset:])
		done += n
		r.offset += n
		r.at += int64(n)
		if r.offset == len(r.parts[r.part]) {
			r.part++
			r.offset = 0
		}
	}
	if done == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return done, nil
}

// WriteTo implements io.WriterTo. A hash gets the parts without a copy: without TLS, the client library
// hashes each body for the signature. Any other writer may wait, and detach would wait for it, so it
// gets copies.
func (r *partsReader) WriteTo(w io.Writer) (done int64, err error) {
	sum, ok := w.(hash.Hash)
	if !ok {
		return io.Copy(w, struct{ io.Reader }{r})
	}
	for {
		n, err := r.hashNext(sum)
		if done += int64(n); n == 0 || err != nil {
			return done, err
		}
	}
}

// hashNext adds the next bytes to a hash, 0 at the end. It takes few at a time, because the runtime
// cannot interrupt a hash.
func (r *partsReader) hashNext(sum hash.Hash) (n int, err error) {
	const most = 64 << 10
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.detached {
		return 0, errDetached
	}
	for ; r.part < len(r.parts); r.part, r.offset = r.part+1, 0 {
		if b := r.parts[r.part][r.offset:]; len(b) > 0 {
			n, err = sum.Write(b[:min(len(b), most)])
			r.offset += n
			r.at += int64(n)
			return n, err
		}
	}
	return 0, nil
}

// Seek implements io.Seeker.
func (r *partsReader) Seek(offset int64, whence int) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 || offset > r.size {
		return r.at, fmt.Errorf("seek to %d of %d bytes", offset, r.size)
	}
	r.at, r.part, r.offset = offset, 0, 0
	for left := offset; left > 0; r.part++ {
		n := int64(len(r.parts[r.part]))
		if left < n {
			r.offset = int(left)
			break
		}
		left -= n
	}
	return r.at, nil
}

// detach ensures that the parts are not read any more. It waits for a running Read, which holds mu.
func (r *partsReader) detach() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parts, r.detached = nil, true
}

var errStalled = errors.New("object store did not answer in time")

// watchdog cancels a request if a step of it exceeds the timeout.
type watchdog struct {
	timeout time.Duration
	timer   *time.Timer
	cancel  context.CancelCauseFunc
}

// watch returns a context that ends with errStalled if the first step is not done within timeout.
func watch(ctx context.Context, timeout time.Duration) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watchdog{timeout: timeout, cancel: cancel}
	w.timer = time.AfterFunc(timeout, func() { cancel(errStalled) })
	return ctx, w
}

func (w *watchdog) begin() { w.timer.Reset(w.timeout) }
func (w *watchdog) done()  { w.timer.Stop() }

func (w *watchdog) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// objectBody is the body of a GET. The watchdog bounds the wait for the store, but not the time of
// a slow reader.
type objectBody struct {
	ctx    context.Context // of the request; lives as long as the body
	body   io.ReadCloser
	left   int64 // bytes still to come; -1 if the store did not report them
	dog    *watchdog
	closed bool
}

// Read implements io.Reader. Fewer bytes than announced are ErrNoVerdict.
func (b *objectBody) Read(p []byte) (int, error) {
	if b.left == 0 || len(p) == 0 {
		if b.left == 0 {
			return 0, io.EOF
		}
		return 0, nil
	}
	if b.left > 0 && int64(len(p)) > b.left {
		p = p[:b.left]
	}
	b.dog.begin()
	n, err := b.body.Read(p)
	b.dog.done()
	if b.left > 0 {
		b.left -= int64(n)
	}
	switch {
	case err == nil, b.left == 0:
		return n, nil
	case err == io.EOF && b.left < 0:
		return n, io.EOF
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	case b.ctx.Err() != nil:
		err = objstore.Ended(b.ctx)
	}
	return n, fmt.Errorf("read object: %w: %w", objstore.ErrNoVerdict, err)
}

// Close implements io.Closer.
func (b *objectBody) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	if b.left == 0 {
		// Reading to the end, which has already arrived, lets the connection be reused.
		b.dog.begin()
		_, _ = io.CopyN(io.Discard, b.body, 1)
	}
	err := b.body.Close()
	b.dog.stop()
	if err != nil && b.ctx.Err() == nil {
		return fmt.Errorf("close object: %w: %w", objstore.ErrNoVerdict, err)
	}
	return nil
}
