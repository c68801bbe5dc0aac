package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/api"
)

// Outcome says what is known of a write that did not succeed.
type Outcome uint8

// The outcomes.
const (
	OutcomeNone     Outcome = iota // the call writes nothing
	OutcomeRejected                // nothing is there, and nothing can appear later
	OutcomeUnknown                 // it may appear once, or never
)

// What an *Error may be tested for with errors.Is: its outcome, or the broker's reason.
var (
	ErrRejected       = errors.New("rejected")
	ErrOutcomeUnknown = errors.New("outcome unknown: it may appear once, or never")

	ErrUnknownTopic     error = codeError(api.UnknownTopic)
	ErrUnknownPartition error = codeError(api.UnknownPartition)
	ErrTopicExists      error = codeError(api.TopicExists)
	ErrTopicInUse       error = codeError(api.TopicInUse) // by triggers
	ErrOffsetMismatch   error = codeError(api.OffsetMismatch)
	ErrBelowStart       error = codeError(api.OffsetBelowStart)
	ErrFenced           error = codeError(api.Fenced)
	ErrOverBudget       error = codeError(api.OverBudget)
	ErrStoreUnavailable error = codeError(api.StoreUnavailable)
	ErrCorrupt          error = codeError(api.CorruptData)
	ErrUnauthorized     error = codeError(api.Unauthorized)
	ErrTooLarge         error = codeError(api.TooLarge)
	ErrBadRequest       error = codeError(api.BadRequest)
	ErrReadOnly         error = codeError(api.ReadOnly)
	ErrUnknownGroup     error = codeError(api.UnknownGroup)
	ErrGroupActive      error = codeError(api.GroupActive)
	ErrBeyondEnd        error = codeError(api.OffsetBeyondEnd)
	ErrSequenceGap      error = codeError(api.SequenceGap)
	ErrProducerFenced   error = codeError(api.ProducerFenced)
	ErrFormatLevel      error = codeError(api.FormatLevel) // of the bucket: too low for the call, or too high for the broker
	ErrStateFull        error = codeError(api.StateFull)   // the broker's memory limit allows no more topics, partitions or groups
	ErrClockWrong       error = codeError(api.ClockWrong)  // of the broker's machine: nothing is stored until somebody sets it

	ErrKeyNotFound         error = codeError(api.KeyNotFound)
	ErrKeyIndexOff         error = codeError(api.KeyIndexOff)
	ErrKeyIndexBehind      error = codeError(api.KeyIndexBehind)
	ErrKeyIndexUnavailable error = codeError(api.KeyIndexUnavailable)

	ErrTriggersOff         error = codeError(api.TriggersOff)
	ErrTriggersUnavailable error = codeError(api.TriggersUnavailable)
	ErrUnknownTrigger      error = codeError(api.UnknownTrigger)
	ErrUnknownFiring       error = codeError(api.UnknownFiring)
)

type codeError api.Code

func (c codeError) Error() string { return string(c) }

// Error is why a call failed. errors.Is tells its outcome (ErrRejected, ErrOutcomeUnknown) and its reason
// (ErrUnknownTopic ...); errors.As and Is also reach the transport's or the context's error in Err.
type Error struct {
	Outcome    Outcome
	Status     int    // of the HTTP answer, 0 if there was none
	Code       string // stable name of the reason, "" if the answer had none
	Detail     string // for people
	RetryAfter time.Duration
	NextOffset int64 // where the partition ends, with ErrOffsetMismatch; else -1
	Start      int64 // first offset that is there, with ErrBelowStart; else -1
	Committed  int64 // what the group has committed, with ErrOffsetMismatch of a commit; else, and for nothing, -1
	Leader     string
	// Line and Column, both from 1, or Pointer, a JSON Pointer, are where the fault of an expression is.
	Line, Column int
	Pointer      string
	// Results tells the partitions apart when a produce to several did not end alike everywhere.
	Results []Placed
	// Offsets tells what became of each of several committed offsets, when they did not all succeed.
	Offsets []OffsetResult
	Err     error // why there was no answer, or it could not be read
}

// Error returns one line: what happened, and what it means for a write.
func (e *Error) Error() string {
	var b strings.Builder
	switch {
	case e.Code != "":
		b.WriteString(strings.ReplaceAll(e.Code, "_", " "))
		if e.Detail != "" {
			b.WriteString(": " + e.Detail)
		}
	case e.Status != 0:
		fmt.Fprintf(&b, "answer %d %s", e.Status, http.StatusText(e.Status))
		if e.Detail != "" {
			b.WriteString(": " + e.Detail)
		}
	}
	if e.Err != nil {
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(e.Err.Error())
	}
	if e.Outcome == OutcomeUnknown && e.Code != string(api.OutcomeUnknown) {
		b.WriteString(" (" + ErrOutcomeUnknown.Error() + ")")
	}
	return b.String()
}

// Is reports whether target is the error's outcome or reason.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrRejected:
		return e.Outcome == OutcomeRejected
	case ErrOutcomeUnknown:
		return e.Outcome == OutcomeUnknown
	}
	c, ok := target.(codeError)
	return ok && e.Code == string(c)
}

// Unwrap returns the transport's or context's error.
func (e *Error) Unwrap() error { return e.Err }

// notAnswer says whether err is of an answer that came whole and is none of a broker: another one will not be better.
func notAnswer(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.Is(err, errNotBroker) || errors.As(err, &syntax) || errors.As(err, &kind)
}

// repeatable reports whether r may be sent again without harm, and with hope.
func (e *Error) repeatable(r *request) bool {
	if e.Code == string(api.Fenced) && e.RetryAfter == 0 {
		return false
	}
	if e.Code == string(api.KeyIndexBehind) {
		return false // it has waited for as long as it was to
	}
	free := !r.write || r.harmless
	switch {
	case e.Status == 0:
		// No answer: a read can be repeated, a write only if it never left, unless that does not matter.
		return !isContext(e.Err) && !isUntrusted(e.Err) && (free || e.Outcome == OutcomeRejected)
	case e.Status/100 == 2:
		return free && !isContext(e.Err) && !notAnswer(e.Err) // an answer that broke off
	case !free:
		return e.Outcome == OutcomeRejected && len(e.Results) == 0 && e.RetryAfter > 0 &&
			(e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable)
	}
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// isUntrusted says whether the broker's certificate is not trusted, or there is no TLS where https:// wants some: waiting does not help.
func isUntrusted(err error) bool {
	if errors.Is(err, http.ErrSchemeMismatch) {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	_, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok
}

// problemMax bounds what is read of an answer that is an error.
const problemMax = 1 << 20

// errorOf makes an Error of an answer that is no 2xx.
func errorOf(resp *http.Response, write bool) *Error {
	e := &Error{Status: resp.StatusCode, NextOffset: -1, Start: -1, Committed: -1, RetryAfter: retryAfter(resp.Header.Get("Retry-After"))}
	body, err := io.ReadAll(io.LimitReader(resp.Body, problemMax))
	var p api.Problem
	if err == nil && strings.HasPrefix(resp.Header.Get("Content-Type"), api.ProblemJSON) && json.Unmarshal(body, &p) == nil {
		e.Code, e.Detail, e.Leader = string(p.Code), p.Detail, p.Leader
		e.Line, e.Column, e.Pointer = p.Line, p.Column, p.Pointer
		e.Results = placed(p.Results)
		if p.NextOffset != nil {
			e.NextOffset = *p.NextOffset
		}
		if p.StartOffset != nil {
			e.Start = *p.StartOffset
		}
		if p.Committed != nil {
			e.Committed = *p.Committed
		}
		e.Offsets = p.Offsets
	} else {
		e.Detail = firstLine(body)
	}
	if write {
		e.Outcome = outcomeOf(e)
	}
	return e
}

// outcomeOf judges a write by its answer. The broker's rejections carry a code. A 5xx without one comes from something
// in between, which may have passed the request on.
func outcomeOf(e *Error) Outcome {
	if e.Code == string(api.OutcomeUnknown) {
		return OutcomeUnknown
	}
	if e.Status < 500 || e.Status == http.StatusServiceUnavailable && e.Code != "" {
		return OutcomeRejected
	}
	return OutcomeUnknown
}

func retryAfter(v string) time.Duration {
	if v == "" {
		return 0
	}
	if s, err := strconv.Atoi(v); err == nil && s >= 0 && s <= 3600 {
		return max(time.Duration(s)*time.Second, time.Millisecond)
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(time.Until(t), time.Millisecond)
	}
	return 0
}

func firstLine(b []byte) string {
	s, _, _ := strings.Cut(strings.TrimSpace(string(b[:min(len(b), 300)])), "\n")
	return s
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
