package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/api"
)

// Outcome is the effect of a write that returned an error.
type Outcome uint8

// The outcomes.
const (
	OutcomeNone     Outcome = iota // the call does not write
	OutcomeRejected                // nothing is stored or can appear later
	OutcomeUnknown                 // the write may take effect once, or never
)

// Errors that callers may test for with errors.Is: the outcome, and the broker's reasons.
var (
	ErrRejected       = errors.New("rejected")
	ErrOutcomeUnknown = errors.New("outcome unknown: it may appear once, or never")

	ErrUnknownTopic       error = codeError(api.UnknownTopic)
	ErrUnknownPartition   error = codeError(api.UnknownPartition)
	ErrTopicExists        error = codeError(api.TopicExists)
	ErrTopicInUse         error = codeError(api.TopicInUse)    // triggers, or a queue for its dead letters, use the topic
	ErrNoStandby          error = codeError(api.NoStandby)     // no other broker can lead now
	ErrUnknownBroker      error = codeError(api.UnknownBroker) // no broker of the bucket has this run
	ErrBrokerUp           error = codeError(api.BrokerUp)
	ErrOffsetMismatch     error = codeError(api.OffsetMismatch)
	ErrBelowStart         error = codeError(api.OffsetBelowStart)
	ErrFenced             error = codeError(api.Fenced)
	ErrNotLeader          error = codeError(api.NotLeader)
	ErrNotYet             error = codeError(api.NotYet) // the broker is behind what the client has seen
	ErrOverBudget         error = codeError(api.OverBudget)
	ErrStoreUnavailable   error = codeError(api.StoreUnavailable)
	ErrCorrupt            error = codeError(api.CorruptData)
	ErrUnauthorized       error = codeError(api.Unauthorized)
	ErrForbidden          error = codeError(api.Forbidden) // the key does not allow the call
	ErrUnknownToken       error = codeError(api.UnknownToken)
	ErrTokenExists        error = codeError(api.TokenExists)
	ErrUnknownQuota       error = codeError(api.UnknownQuota)
	ErrQuotaExceeded      error = codeError(api.QuotaExceeded) // of the principal of the key
	ErrTooLarge           error = codeError(api.TooLarge)
	ErrBadRequest         error = codeError(api.BadRequest)
	ErrReadOnly           error = codeError(api.ReadOnly)
	ErrUnknownGroup       error = codeError(api.UnknownGroup)
	ErrGroupActive        error = codeError(api.GroupActive)
	ErrUnknownTransaction error = codeError(api.UnknownTransaction)
	ErrTransactionState   error = codeError(api.TransactionState) // no transaction is open
	ErrBeyondEnd          error = codeError(api.OffsetBeyondEnd)
	ErrSequenceGap        error = codeError(api.SequenceGap)
	ErrProducerFenced     error = codeError(api.ProducerFenced)
	// The broker remembers too many idempotent producers, and can forget none yet. Retry later.
	ErrProducersFull error = codeError(api.ProducersFull)
	// The bucket's format level is too low for the call, or too high for the broker.
	ErrFormatLevel error = codeError(api.FormatLevel)
	// The broker's memory limit allows no more topics, partitions or groups.
	ErrStateFull error = codeError(api.StateFull)
	// The clock of the broker's machine is wrong. The broker stores nothing until it is corrected.
	ErrClockWrong error = codeError(api.ClockWrong)

	ErrNotAQueue         error = codeError(api.NotAQueue)         // the topic is no queue
	ErrQueueFull         error = codeError(api.QueueFull)         // retry later
	ErrQueueLimit        error = codeError(api.QueueLimit)        // of messages that workers have, or of dedup IDs
	ErrUnknownReceipt    error = codeError(api.UnknownReceipt)    // it is none of the queue
	ErrStaleReceipt      error = codeError(api.StaleReceipt)      // the message was settled, or leased again
	ErrMessageLeased     error = codeError(api.MessageLeased)     // a worker has the message
	ErrUnknownMessage    error = codeError(api.UnknownMessage)    // or it is done
	ErrUnknownSchedule   error = codeError(api.UnknownSchedule)   // the queue has no such schedule
	ErrNoDeadLetterQueue error = codeError(api.NoDeadLetterQueue) // the queue has none

	ErrKeyNotFound         error = codeError(api.KeyNotFound)
	ErrKeyIndexOff         error = codeError(api.KeyIndexOff)
	ErrKeyIndexBehind      error = codeError(api.KeyIndexBehind)
	ErrKeyIndexUnavailable error = codeError(api.KeyIndexUnavailable)

	ErrRiemannIndexOff         error = codeError(api.RiemannIndexOff)
	ErrRiemannIndexUnavailable error = codeError(api.RiemannIndexUnavailable)
	ErrTriggersOff             error = codeError(api.TriggersOff)
	ErrTriggersUnavailable     error = codeError(api.TriggersUnavailable)
	ErrUnknownTrigger          error = codeError(api.UnknownTrigger)
	// The stored trigger is another one than IfTag or IfNew require.
	ErrPreconditionFailed error = codeError(api.PreconditionFailed)
	ErrUnknownFiring      error = codeError(api.UnknownFiring)
)

type codeError api.Code

func (c codeError) Error() string { return string(c) }

// Error is the reason why a call failed. errors.Is tests for its outcome (ErrRejected,
// ErrOutcomeUnknown) and its reason (ErrUnknownTopic ...). errors.Is and errors.As also reach the
// transport's or context's error in Err.
type Error struct {
	Outcome    Outcome
	Status     int    // of the HTTP answer; 0: no answer
	Code       string // stable name of the reason; "": the answer had none
	Detail     string // for people
	RetryAfter time.Duration
	NextOffset int64 // the partition's end, with ErrOffsetMismatch; else -1
	Start      int64 // the partition's start, with ErrBelowStart; else -1
	// Committed is the group's committed offset, with ErrOffsetMismatch of a commit; -1: none, or
	// another error.
	Committed int64
	Leader    string
	// Line and Column, both from 1, locate an error in an expression's text. Pointer, a JSON
	// Pointer, locates it in the JSON form.
	Line, Column int
	Pointer      string
	// Results has the outcome per partition if a produce to several ended differently.
	Results []ProduceResult
	// Offsets has the outcome per committed offset if not all succeeded.
	Offsets []OffsetResult
	Err     error // reason why there is no valid answer

	after string // the position that the broker has not applied
}

// Error returns one line: the reason, and the outcome of a write.
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

// notAnswer reports whether err belongs to a complete answer that does not come from a broker. A
// retry would get the same answer.
func notAnswer(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.Is(err, errNotBroker) || errors.As(err, &syntax) || errors.As(err, &kind)
}

// repeatable reports whether sending r again is safe and can succeed.
func (e *Error) repeatable(r *request) bool {
	if e.Code == string(api.Fenced) && e.RetryAfter == 0 {
		return false
	}
	if e.Code == string(api.KeyIndexBehind) {
		// The broker has already waited for the requested time.
		return false
	}
	free := !r.write || r.idempotent
	switch {
	case e.Status == 0:
		// Without an answer a read can be repeated. A write can be repeated if it was not sent, or
		// if it is idempotent.
		return !isContext(e.Err) && !isUntrusted(e.Err) && (free || e.Outcome == OutcomeRejected)
	case e.Status/100 == 2:
		return free && !isContext(e.Err) && !notAnswer(e.Err) // the answer ended early
	case !free:
		return e.Outcome == OutcomeRejected && len(e.Results) == 0 && e.RetryAfter > 0 &&
			(e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable)
	}
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// isUntrusted reports a TLS error: the certificate is not trusted, or an https:// address does not
// speak TLS. Retries do not help.
func isUntrusted(err error) bool {
	if errors.Is(err, http.ErrSchemeMismatch) {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok || isRefusedCertificate(err) {
		return true
	}
	_, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok
}

// isRefusedCertificate reports whether the broker refused the client's certificate, or the lack of
// one. Then it has read no request.
func isRefusedCertificate(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error" && strings.Contains(op.Err.Error(), "certificate")
}

// problemMax bounds the bytes that are read of an error answer.
const problemMax = 1 << 20

// errorOf returns the Error of an answer without a 2xx status.
func errorOf(resp *http.Response, write bool) *Error {
	e := &Error{Status: resp.StatusCode, NextOffset: -1, Start: -1, Committed: -1, RetryAfter: retryAfter(resp.Header.Get("Retry-After"))}
	body, err := io.ReadAll(io.LimitReader(resp.Body, problemMax))
	var p api.Problem
	if err == nil && strings.HasPrefix(resp.Header.Get("Content-Type"), api.ProblemJSON) && json.Unmarshal(body, &p) == nil {
		e.Code, e.Detail, e.Leader = string(p.Code), p.Detail, p.Leader
		e.Line, e.Column, e.Pointer = p.Line, p.Column, p.Pointer
		e.Results = produced(p.Results)
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

// outcomeOf returns the outcome of a write from its answer. The broker's rejections have a code. A
// 5xx status without a code comes from a proxy, which may have forwarded the request.
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
