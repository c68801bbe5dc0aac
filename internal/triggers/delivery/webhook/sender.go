package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/triggers/delivery/template"
	"github.com/sebbroker/seb/webhook"
)

// Options configure a Sender. The zero Options are usable.
type Options struct {
	// Policy is the allowed addresses. With a Proxy the proxy connects and must restrict addresses
	// itself.
	Policy Policy
	// Proxy is the proxy of all requests, nil for none; the environment is ignored.
	Proxy *url.URL
	// Resolver resolves names; nil means the system's.
	Resolver *net.Resolver
	// RootCAs are the trusted authorities; nil means the system's.
	RootCAs *x509.CertPool
	// UserAgent is the default User-Agent header; "" means "Seb-Webhooks".
	UserAgent string

	ConnectTimeout time.Duration // for connecting, and again for TLS; 0 means 5 s
	HeaderTimeout  time.Duration // from the end of the request to the answer's head; 0 means 15 s
	Timeout        time.Duration // for the whole attempt; 0 means 20 s

	// Total bounds the messages of all triggers in flight; 0 means 2,048. Bytes bounds their memory,
	// each with its body and about 32 KiB for its connection; 0 means 32 MiB. When half of either
	// is used, a trigger may have an eighth of the free slots, and at least one.
	Total int
	Bytes int

	// Now is the clock for timestamps; nil means time.Now.
	Now func() time.Time
}

const (
	connectTimeout = 5 * time.Second
	headerTimeout  = 15 * time.Second
	wholeTimeout   = 20 * time.Second
	timeoutMax     = 5 * time.Minute
	totalSlots     = 2048
	slotsMax       = 100_000
	totalBytes     = 32 << 20
	slotBytes      = 32 << 10 // buffers of a connection, stacks
	buildersMax    = 2        // bodies built at once: a template may decode 1 MiB of data

	bodyTimeout    = 3 * time.Second // for reading an answer's body, which is optional
	answerBytesMax = 64 << 10        // read of an answer's body, to reuse the connection
	headBytesMax   = 16 << 10        // of an answer's headers
	idleTimeout    = 4 * time.Second // below the common keep-alive timeout of servers, 5 s
)

// withDefaults sets the defaults, and reports every value that is out of range.
func (o Options) withDefaults() (Options, error) {
	var faults []error
	for _, d := range []struct {
		name     string
		value    *time.Duration
		fallback time.Duration
	}{
		{"connect timeout", &o.ConnectTimeout, connectTimeout},
		{"header timeout", &o.HeaderTimeout, headerTimeout},
		{"timeout", &o.Timeout, wholeTimeout},
	} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
		if *d.value < 0 || *d.value > timeoutMax {
			faults = append(faults, fmt.Errorf("%s is %v, want more than 0 and at most %v", d.name, *d.value, timeoutMax))
		}
	}
	o.Total = cmp.Or(o.Total, totalSlots)
	o.Bytes = cmp.Or(o.Bytes, totalBytes)
	if o.Bytes < slotBytes {
		faults = append(faults, fmt.Errorf("bytes in flight: %d, want at least %d", o.Bytes, slotBytes))
	}
	if o.Total < 1 || o.Total > slotsMax {
		faults = append(faults, fmt.Errorf("messages in flight: %d, want 1 to %d", o.Total, slotsMax))
	}
	if o.Proxy != nil && (o.Proxy.Scheme != "http" && o.Proxy.Scheme != "https" || o.Proxy.Host == "") {
		faults = append(faults, errors.New("proxy: want http://host:port or https://host:port"))
	}
	o.UserAgent = cmp.Or(o.UserAgent, "Seb-Webhooks")
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, errors.Join(faults...)
}

// Sender sends messages. It may be used concurrently. It has no state that must survive.
type Sender struct {
	o         Options
	transport *http.Transport
	slots     *slots
	builders  chan struct{} // capacity: bodies built at once
}

// NewSender returns a Sender, to be ended by Close. The error names every option that is out of
// range.
func NewSender(o Options) (*Sender, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("webhooks: %w", err)
	}
	// A connection stays open for the next message of its receiver: there are never more than messages
	// in flight a moment ago.
	connections := min(o.Total, max(1, o.Bytes/slotBytes))
	dialer := &net.Dialer{Timeout: o.ConnectTimeout, Control: o.Policy.control, Resolver: o.Resolver}
	t := &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    o.ConnectTimeout,
		ResponseHeaderTimeout:  o.HeaderTimeout,
		DisableCompression:     true, // an answer is not decompressed: its size would be unbounded
		MaxIdleConns:           connections,
		MaxIdleConnsPerHost:    connections,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: headBytesMax,
		Protocols:              new(http.Protocols),
	}
	// One connection per message: in HTTP/2 a stuck message would delay others to the host.
	t.Protocols.SetHTTP1(true)
	if o.Proxy != nil {
		t.Proxy = http.ProxyURL(o.Proxy)
		dialer.Control = nil // connections go to the proxy's address
	}
	return &Sender{o: o, transport: t, slots: newSlots(o.Total, o.Bytes), builders: make(chan struct{}, buildersMax)}, nil
}

// Close refuses new messages, waits for those in flight, and closes connections. It takes at most
// the timeout; to be faster, end the contexts of the messages first. A connection attempt of a
// stopped message may continue for up to the connect timeout. Close may be called twice.
func (s *Sender) Close() {
	s.slots.close()
	s.transport.CloseIdleConnections()
}

// Slot is the capacity for one message in flight, with its body.
type Slot struct {
	s       *Sender
	t       *Target
	message *template.Message
	body    []byte
	err     error // building the body failed
	bytes   int
	once    sync.Once
}

// Reserve builds the body of m for t and takes a slot for it. It does not wait: it returns nil if a
// limit is reached or the Sender was closed. Capacity is available again after a Release. m is used
// until Send returns.
func (s *Sender) Reserve(t *Target, m *template.Message) *Slot {
	if !s.slots.take(m.Trigger, slotBytes) {
		return nil
	}
	slot := &Slot{s: s, t: t, message: m, bytes: slotBytes}
	s.builders <- struct{}{}
	slot.body, slot.err = t.Body(m)
	<-s.builders
	if n := cap(slot.body); s.slots.grow(m.Trigger, n) {
		slot.bytes += n
		return slot
	}
	slot.Release()
	return nil
}

// Room reports whether Reserve would take one more slot for a trigger that has, or is about to
// reserve, a number of them.
func (s *Sender) Room(trigger string, has int) bool { return s.slots.room(trigger, has) }

// Release frees the slot. It may be called twice.
func (s *Slot) Release() { s.once.Do(func() { s.s.slots.release(s.message.Trigger, s.bytes) }) }

// Send makes one attempt. It returns within the Sender's timeout, and at once with Stopped when ctx
// ends. It must not be called after Release.
func (s *Slot) Send(ctx context.Context) Outcome {
	start := time.Now()
	o := s.send(ctx)
	o.Took = time.Since(start)
	return o
}

func (s *Slot) send(ctx context.Context) Outcome {
	if s.err != nil {
		part := "body"
		if s.t.template != nil {
			part = "template"
		}
		return Outcome{Kind: Permanent, Reason: clean(part+": "+s.err.Error(), reasonMax)}
	}
	attempt, cancel := context.WithTimeout(ctx, s.s.o.Timeout)
	defer cancel()
	req, err := s.request(attempt)
	if err != nil {
		return Outcome{Kind: Permanent, Reason: clean(err.Error(), reasonMax)}
	}
	resp, err := s.s.transport.RoundTrip(req) // RoundTrip follows no redirects and keeps no cookies
	if err != nil {
		if ctx.Err() != nil {
			return Outcome{Kind: Stopped, Reason: "stopped before the answer"}
		}
		return failure(req.URL, err)
	}
	defer resp.Body.Close()
	o := judge(resp, s.s.o.Now())
	if resp.StatusCode == http.StatusSwitchingProtocols { // the body is the connection, which no context ends
		return o
	}
	defer time.AfterFunc(bodyTimeout, cancel).Stop()
	o.Detail = detail(resp.Body)
	return o
}

// request builds a signed request. Its errors are permanent.
func (s *Slot) request(ctx context.Context) (*http.Request, error) {
	o := s.s.o
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.t.url, bytes.NewReader(s.body))
	if err != nil {
		return nil, errors.New("url: cannot be parsed")
	}
	// The policy may have changed since Parse.
	if err := checkHost(req.URL.Hostname(), o.Policy); err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	req.Header = s.t.header.Clone()
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", o.UserAgent)
	}
	return req, webhook.Sign(req.Header, s.message.MessageID(), o.Now(), s.body, s.t.secrets...)
}

// detail reads an answer's body for a limited time and returns its beginning. A truncated body is
// no error.
func detail(answer io.Reader) string {
	start := make([]byte, detailMax)
	n, err := io.ReadFull(answer, start)
	if err == nil {
		_, _ = io.CopyN(io.Discard, answer, answerBytesMax-detailMax)
	}
	return clean(string(start[:n]), detailMax)
}

// failure is the outcome of an attempt without an answer. It contains no addresses and no URL,
// parts of which may be secret.
func failure(u *url.URL, err error) Outcome {
	reason := ""
	refused, isRefused := errors.AsType[*RefusedError](err)
	dns, isDNS := errors.AsType[*net.DNSError](err)
	var timeout net.Error
	switch {
	case isRefused:
		reason = fmt.Sprintf("host %s refused: %v", u.Hostname(), refused)
	case isDNS && dns.IsNotFound:
		reason = "unknown host " + u.Hostname()
	case isDNS:
		reason = "DNS lookup of " + u.Hostname() + " failed"
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, os.ErrDeadlineExceeded):
		reason = "no answer in time"
	case isTLS(err):
		reason = "TLS: " + err.Error()
	case strings.Contains(err.Error(), "readLoopPeekFailLocked"): // the only name that net/http has for it
		reason = "receiver sent data before the request"
	default:
		reason = cause(err).Error()
	}
	return Outcome{Kind: Retry, Reason: clean(reason, reasonMax)}
}

func isTLS(err error) bool {
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	_, record := errors.AsType[tls.RecordHeaderError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	return verification || record || alert
}

// cause is the cause of a connection error, without addresses.
func cause(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}

// slots counts the messages in flight by trigger, and their bytes. When half of the slots or bytes
// are taken, a trigger may have an eighth of those that are free, and at least one. A trigger with a
// hanging receiver thus leaves the other half to others, and all of them one to each newcomer.
type slots struct {
	total, bytes int

	mu     sync.Mutex // guards the fields below
	used   map[string]int
	sum    int
	filled int // bytes
	closed bool
	idle   chan struct{} // closed when closed is set and sum is 0
}

func newSlots(total, bytes int) *slots {
	return &slots{total: total, bytes: bytes, used: make(map[string]int), idle: make(chan struct{})}
}

// take takes a slot with bytes.
func (s *slots) take(trigger string, bytes int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.filled+bytes > s.bytes || !s.roomLocked(trigger, s.used[trigger]) {
		return false
	}
	s.used[trigger]++
	s.sum++
	s.filled += bytes
	return true
}

func (s *slots) room(trigger string, has int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.roomLocked(trigger, has)
}

// roomLocked reports whether a trigger may have one more slot than the number that it has.
func (s *slots) roomLocked(trigger string, has int) bool {
	more := has - s.used[trigger]
	sum, filled := s.sum+more, s.filled+more*slotBytes
	if sum < s.total/2 && filled < s.bytes/2 {
		return true
	}
	free := min(s.total-sum, (s.bytes-filled)/slotBytes)
	return free > 0 && has < max(1, free/8)
}

// grow adds bytes to a slot of a trigger. A trigger may build many bodies at once, so its share counts
// again.
func (s *slots) grow(trigger string, bytes int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := s.bytes - s.filled - bytes
	if s.sum > 1 && (free < 0 || free < s.bytes/2 && s.used[trigger] > max(1, free/slotBytes/8)) { // a single message always fits
		return false
	}
	s.filled += bytes
	return true
}

func (s *slots) release(trigger string, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[trigger]--; s.used[trigger] == 0 {
		delete(s.used, trigger)
	}
	s.sum--
	s.filled -= bytes
	s.signalLocked()
}

// close refuses new slots and waits until all are released.
func (s *slots) close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		s.signalLocked()
	}
	s.mu.Unlock()
	<-s.idle
}

// signalLocked closes idle when closed is set and no slot is taken.
func (s *slots) signalLocked() {
	if s.closed && s.sum == 0 {
		close(s.idle)
	}
}
