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

// Kind is what an attempt has come to. The zero Kind is none.
type Kind uint8

// The kinds of outcomes.
const (
	Delivered Kind = iota + 1 // a 2xx has come back
	Retry                     // may work another time
	Permanent                 // never will: the receiver is gone, or there is nothing that can be sent
	Stopped                   // the sender was stopped before the answer came: no attempt, though it may have arrived
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
	return fmt.Errorf("outcome: %.32q, want delivered, retry, permanent or stopped", text)
}

const (
	reasonMax = 512     // bytes of an outcome's reason
	detailMax = 1 << 10 // bytes of an answer's body that are kept
)

// Outcome is what an attempt has come to, small enough to be kept with every attempt. Nothing in it comes from the message,
// the target's secrets or its headers, unless the receiver repeats it in its answer.
type Outcome struct {
	Kind   Kind `json:"kind"`
	Status int  `json:"status,omitempty"` // of the answer; 0 if there was none
	// RetryAfter is for how long the receiver wants to be left alone, 0 if it did not say so; at most 24 h. It is about the
	// receiver: other messages to it better wait too.
	RetryAfter time.Duration `json:"retry_after_ns,omitempty"`
	Reason     string        `json:"reason,omitempty"` // one sentence for people; "" if delivered
	Detail     string        `json:"detail,omitempty"` // the first KiB of the answer's body, made printable
	Took       time.Duration `json:"took_ns"`
}

// Gone says whether the receiver wants no message of this trigger any more: the trigger is to be paused.
func (o Outcome) Gone() bool { return o.Status == http.StatusGone }

// judge makes the outcome of an answer's head.
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
		o.Reason = "answered 410 Gone: the receiver wants no more messages"
	default:
		o.Reason = "answered " + status(resp)
	}
	o.Reason = clean(o.Reason, reasonMax)
	o.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), now)
	return o
}

// status is the code and its usual name: the receiver's own words are not needed.
func status(resp *http.Response) string {
	return strings.TrimSpace(strconv.Itoa(resp.StatusCode) + " " + http.StatusText(resp.StatusCode))
}

// location is where an answer points to, without what may be a secret: user, parameters.
func location(resp *http.Response) string {
	u, err := resp.Location()
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
	return u.String()
}

// retryAfter reads the header: seconds, or a date (RFC 9110, section 10.2.3). What can not be read, or is over, is 0.
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

// clean cuts s to max bytes and makes it valid UTF-8 that does nothing to a terminal: control characters and what can not
// be read become dots, line breaks and tabs stay.
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
