package webhook

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Kind is the result of an attempt. The zero Kind is invalid.
type Kind uint8

// The kinds of outcomes.
const (
	Delivered Kind = iota + 1 // the receiver answered 2xx
	Retry                     // may succeed later
	Permanent                 // never succeeds: the receiver is gone, or the body cannot be built
	Stopped                   // not counted as an attempt; the message may have arrived
)

var kindNames = [...]string{Delivered: "delivered", Retry: "retry", Permanent: "permanent", Stopped: "stopped"}

// String is the kind in lower case.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// MarshalText writes the name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads a name.
func (k *Kind) UnmarshalText(text []byte) error {
	for i, name := range kindNames {
		if name != "" && name == string(text) {
			*k = Kind(i)
			return nil
		}
	}
	return fmt.Errorf("unknown outcome %.32q, want delivered, retry, permanent or stopped", text)
}

const (
	reasonMax = 512     // bytes of an outcome's reason
	detailMax = 1 << 10 // bytes of an answer's body that are recorded
)

// Outcome is the result of an attempt, small enough to be recorded for every attempt. It contains
// no part of the message, the target's secrets or its headers, unless the receiver repeats it in
// its answer.
type Outcome struct {
	Kind   Kind `json:"kind"`
	Status int  `json:"status,omitempty"` // of the answer; 0 without one
	// RetryAfter is the pause that the receiver asked for, 0 if none; at most 24 h. It applies to
	// the receiver, so other messages to it should wait too.
	RetryAfter time.Duration `json:"retry_after_ns,omitempty"`
	Reason     string        `json:"reason,omitempty"` // one sentence for users; "" if delivered
	Detail     string        `json:"detail,omitempty"` // start of the answer's body, printable
	Took       time.Duration `json:"took_ns"`
}

// Gone reports whether the receiver answered 410 Gone: the trigger should be paused.
func (o Outcome) Gone() bool { return o.Status == http.StatusGone }

// judge builds the outcome of an answer's head.
func judge(resp *http.Response, now time.Time) Outcome {
	o := Outcome{Kind: Retry, Status: resp.StatusCode}
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		o.Kind = Delivered
		return o
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		o.Reason = fmt.Sprintf("answered %s; redirects are not followed", status(resp))
		if to := location(resp); to != "" {
			o.Reason += ": set the URL to " + to
		}
	case resp.StatusCode == http.StatusGone:
		o.Kind = Permanent
		o.Reason = "answered 410 Gone: the receiver accepts no more messages"
	default:
		o.Reason = "answered " + status(resp)
	}
	o.Reason = clean(o.Reason, reasonMax)
	o.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), now)
	return o
}

// status is the code and its standard name; the receiver's text is dropped.
func status(resp *http.Response) string {
	return strings.TrimSpace(strconv.Itoa(resp.StatusCode) + " " + http.StatusText(resp.StatusCode))
}

// location is the redirect target of an answer, without possible secrets: user and query.
func location(resp *http.Response) string {
	u, err := resp.Location()
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
	return u.String()
}

// retryAfter parses the header: seconds, or a date (RFC 9110, section 10.2.3). An invalid or past
// value is 0.
func retryAfter(value string, now time.Time) time.Duration {
	if value == "" {
		return 0
	}
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(retryAfterMax/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), retryAfterMax)
}

// clean truncates s to limit bytes, and makes it valid UTF-8 that is safe in a terminal: control
// characters and invalid bytes become dots, line breaks and tabs stay.
func clean(s string, limit int) string {
	var b strings.Builder
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) && r != '\n' && r != '\t' {
			r = '.'
		}
		if b.Len()+utf8.RuneLen(r) > limit {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}
