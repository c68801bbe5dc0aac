package webhook

import (
	"bytes"
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

	"github.com/sebbroker/seb/internal/delivery/template"
	"github.com/sebbroker/seb/webhook"
)

// Options say how a Sender works. The zero Options are usable.
type Options struct {
	// Policy is what addresses it connects to. With a Proxy it is the proxy that connects, and has to choose.
	Policy Policy
	// Proxy is what all requests go through, nil for none: the environment is not looked at.
	Proxy *url.URL
	// Resolver looks names up; nil means the machine's.
	Resolver *net.Resolver
	// RootCAs are who may vouch for receivers; nil means the machine's.
	RootCAs *x509.CertPool
	// UserAgent is sent unless a Target has its own; "" means "Seb-Webhooks".
	UserAgent string

	ConnectTimeout time.Duration // for a connection, and again for TLS; 0 means 5 s
	HeaderTimeout  time.Duration // from the request's end to the answer's head; 0 means 15 s
	Timeout        time.Duration // for all of it; 0 means 20 s

	// PerTrigger is how many messages of one trigger are under way at once; 0 means 4.
	PerTrigger int
	// Total is how many of all triggers are; 0 means 512. Bytes is how much memory they have together, each with its body and
	// some 32 KiB for its connection; 0 means 32 MiB. From half of either on a trigger has one at a time.
	Total int
	Bytes int

	// Now is the clock of timestamps; nil means time.Now.
	Now func() time.Time
}

const (
	connectTimeout = 5 * time.Second
	headerTimeout  = 15 * time.Second
	wholeTimeout   = 20 * time.Second
	timeoutMax     = 5 * time.Minute
	perTrigger     = 4
	totalSlots     = 512
	slotsMax       = 100_000
	totalBytes     = 32 << 20
	slotBytes      = 32 << 10 // buffers of a connection, stacks
	makersMax      = 2        // bodies that are made at once: a template may decode 1 MiB of data

	bodyTimeout     = 3 * time.Second // for an answer's body, of which nothing is needed
	answerBytesMax  = 64 << 10        // read of an answer's body, so that the connection can be used again
	headBytesMax    = 16 << 10        // of an answer's headers
	idleConnections = 64
	idlePerHost     = 2
	idleTimeout     = 4 * time.Second // less than the five seconds after which many servers close, so as not to meet that
)

// withDefaults fills in what is zero, and names every value that is out of range.
func (o Options) withDefaults() (Options, error) {
	var faults []error
	for _, d := range []struct {
		name     string
		value    *time.Duration
		standard time.Duration
	}{
		{"connect timeout", &o.ConnectTimeout, connectTimeout},
		{"header timeout", &o.HeaderTimeout, headerTimeout},
		{"timeout", &o.Timeout, wholeTimeout},
	} {
		if *d.value == 0 {
			*d.value = d.standard
		}
		if *d.value < 0 || *d.value > timeoutMax {
			faults = append(faults, fmt.Errorf("%s is %v, want more than 0 and at most %v", d.name, *d.value, timeoutMax))
		}
	}
	if o.Total == 0 {
		o.Total = totalSlots
	}
	if o.PerTrigger == 0 {
		o.PerTrigger = min(perTrigger, o.Total)
	}
	if o.Bytes == 0 {
		o.Bytes = totalBytes
	}
	if o.Bytes < slotBytes {
		faults = append(faults, fmt.Errorf("bytes at once: %d, want at least %d", o.Bytes, slotBytes))
	}
	if o.PerTrigger < 1 || o.PerTrigger > o.Total || o.Total > slotsMax {
		faults = append(faults, fmt.Errorf("messages at once: %d of a trigger and %d of all, want 1 to all, and at most %d", o.PerTrigger, o.Total, slotsMax))
	}
	if o.Proxy != nil && (o.Proxy.Scheme != "http" && o.Proxy.Scheme != "https" || o.Proxy.Host == "") {
		faults = append(faults, errors.New("proxy: want http://host:port or https://host:port"))
	}
	if o.UserAgent == "" {
		o.UserAgent = "Seb-Webhooks"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, errors.Join(faults...)
}

// Sender sends messages. It may be used concurrently. Nothing that it keeps matters: it can be lost at any time.
type Sender struct {
	o         Options
	transport *http.Transport
	slots     *slots
	makers    chan struct{} // has as many places as bodies may be made at once
}

// NewSender returns a Sender that Close ends. The error names every option that is out of range.
func NewSender(o Options) (*Sender, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("webhooks: %w", err)
	}
	dialer := &net.Dialer{Timeout: o.ConnectTimeout, Control: o.Policy.control, Resolver: o.Resolver}
	t := &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    o.ConnectTimeout,
		ResponseHeaderTimeout:  o.HeaderTimeout,
		DisableCompression:     true, // an answer is not unpacked: it might have no end
		MaxIdleConns:           idleConnections,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: headBytesMax,
		Protocols:              new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true) // one message, one connection: with HTTP/2 a stuck one would hold up others of the host
	if o.Proxy != nil {
		t.Proxy = http.ProxyURL(o.Proxy)
		dialer.Control = nil // it is the proxy's address that is connected to
	}
	return &Sender{o: o, transport: t, slots: newSlots(o.PerTrigger, o.Total, o.Bytes), makers: make(chan struct{}, makersMax)}, nil
}

// Close lets no more messages in, waits for those under way, and closes connections. Who wants it to be quick ends their
// contexts first; it takes no longer than the timeout otherwise. A connection that is being made for a message which was
// stopped ends by itself, after the connect timeout at most. Close may be called twice.
func (s *Sender) Close() {
	s.slots.close()
	s.transport.CloseIdleConnections()
}

// Slot is a place for one message under way, with its body.
type Slot struct {
	s       *Sender
	t       *Target
	message *template.Message
	body    []byte
	err     error // why there is no body
	bytes   int
	once    sync.Once
}

// Reserve makes the body of m for t and takes a place for it. It does not wait for places: nil if the trigger has as many
// under way as it may, or there is no room for one more, or the Sender was closed. A place is free again when another is
// released. m is used until Send returns.
func (s *Sender) Reserve(t *Target, m *template.Message) *Slot {
	if !s.slots.take(m.Trigger, slotBytes) {
		return nil
	}
	slot := &Slot{s: s, t: t, message: m, bytes: slotBytes}
	s.makers <- struct{}{}
	slot.body, slot.err = t.Body(m)
	<-s.makers
	if n := cap(slot.body); s.slots.grow(n) {
		slot.bytes += n
		return slot
	}
	slot.Release()
	return nil
}

// Release gives the place back. It may be called twice.
func (s *Slot) Release() { s.once.Do(func() { s.s.slots.give(s.message.Trigger, s.bytes) }) }

// Send makes one attempt. It always returns within the Sender's timeout, and at once when ctx ends, with Stopped. It must not
// be called after Release.
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
	resp, err := s.s.transport.RoundTrip(req) // a transport by itself follows no redirects and keeps no cookies
	if err != nil {
		if ctx.Err() != nil {
			return Outcome{Kind: Stopped, Reason: "stopped before the answer came"}
		}
		return failure(req.URL, err)
	}
	defer resp.Body.Close()
	o := judge(resp, s.s.o.Now())
	if resp.StatusCode == http.StatusSwitchingProtocols { // its body is the connection, which no context ends
		return o
	}
	defer time.AfterFunc(bodyTimeout, cancel).Stop()
	o.Detail = detail(resp.Body)
	return o
}

// request makes a signed request. Its errors are for ever.
func (s *Slot) request(ctx context.Context) (*http.Request, error) {
	o := s.s.o
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.t.url, bytes.NewReader(s.body))
	if err != nil {
		return nil, errors.New("url: it can not be read")
	}
	if err := checkHost(req.URL.Hostname(), o.Policy); err != nil { // the setting may have changed since Parse
		return nil, fmt.Errorf("url: %w", err)
	}
	req.Header = s.t.header.Clone()
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", o.UserAgent)
	}
	return req, webhook.Sign(req.Header, s.message.MessageID(), o.Now(), s.body, s.t.secrets...)
}

// detail reads an answer's body, not for long, and keeps its beginning. That it breaks off matters to nobody.
func detail(answer io.Reader) string {
	start := make([]byte, detailMax)
	n, err := io.ReadFull(answer, start)
	if err == nil {
		_, _ = io.CopyN(io.Discard, answer, answerBytesMax-detailMax)
	}
	return clean(string(start[:n]), detailMax)
}

// failure is the outcome of an attempt that got no answer. It names neither addresses nor the URL, of which a part may be
// secret.
func failure(u *url.URL, err error) Outcome {
	reason := ""
	refused, isRefused := errors.AsType[*RefusedError](err)
	dns, isDNS := errors.AsType[*net.DNSError](err)
	var timeout net.Error
	switch {
	case isRefused:
		reason = fmt.Sprintf("the address of %s is refused: %v", u.Hostname(), refused)
	case isDNS && dns.IsNotFound:
		reason = u.Hostname() + " is not known"
	case isDNS:
		reason = "looking up " + u.Hostname() + " failed"
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, os.ErrDeadlineExceeded):
		reason = "no answer in time"
	case isTLS(err):
		reason = "TLS: " + err.Error()
	case strings.Contains(err.Error(), "readLoopPeekFailLocked"): // net/http has no better name for it
		reason = "answered before it was asked"
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

// cause is what happened to a connection, without its addresses.
func cause(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}
