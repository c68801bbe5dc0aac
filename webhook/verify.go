package webhook

import (
	"cmp"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

var (
	// ErrHeader: headers are missing, duplicate or invalid.
	ErrHeader = errors.New("webhook: bad headers")
	// ErrTimestamp: the message was sent too long ago, or in the future. It is a replay, or a clock
	// is wrong.
	ErrTimestamp = errors.New("webhook: timestamp out of tolerance")
	// ErrSignature: no secret matches a signature of the message.
	ErrSignature = errors.New("webhook: no signature matches")
	// ErrTooLarge: the body exceeds the limit.
	ErrTooLarge = errors.New("webhook: body too large")
)

const (
	// ToleranceDefault is the default of Verifier.Tolerance.
	ToleranceDefault = 5 * time.Minute
	// BodyBytesMax bounds the body that Receive reads. Seb sends at most a quarter of it.
	BodyBytesMax = 1 << 20

	signatureHeaderMax = 4 << 10
	timestampDigitsMax = 12
)

// Verifier verifies messages. Set its fields before the first use. It may then be used
// concurrently.
type Verifier struct {
	// Secrets that may have signed a message; one match is enough. During a rotation, list the old
	// and the new secret.
	Secrets []Secret
	// Tolerance is the allowed difference between a message's timestamp and the clock, in both
	// directions. 0 means ToleranceDefault; a negative value allows any difference.
	Tolerance time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Received is a verified message.
type Received struct {
	// ID is the same for all attempts of a message. Store the IDs, and skip those already seen.
	ID string
	// SentAt is the time of this attempt, in whole seconds.
	SentAt time.Time
	Body   []byte
}

// Receive reads the body of a request, up to BodyBytesMax, and verifies it. Errors: ErrHeader,
// ErrTimestamp, ErrSignature, ErrTooLarge, or the error of reading the body.
func (v *Verifier) Receive(r *http.Request) (Received, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, BodyBytesMax+1))
	if err != nil {
		return Received{}, fmt.Errorf("webhook: read body: %w", err)
	}
	if len(body) > BodyBytesMax {
		return Received{}, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, BodyBytesMax)
	}
	return v.Verify(r.Header, body)
}

// Verify verifies a message whose body was already read. body must be the exact bytes of the
// request. The result's Body is body.
func (v *Verifier) Verify(h http.Header, body []byte) (Received, error) {
	if err := checkSecrets(v.Secrets); err != nil {
		return Received{}, err
	}
	id, seconds, given, err := read(h)
	if err != nil {
		return Received{}, err
	}
	at, err := v.timestamp(seconds)
	if err != nil {
		return Received{}, err
	}
	if !v.matches(given, id, seconds, body) {
		return Received{}, ErrSignature
	}
	return Received{ID: id, SentAt: at, Body: body}, nil
}

// read parses the three headers. It returns the decoded signatures of version v1 only.
func read(h http.Header) (id, seconds string, given [][]byte, err error) {
	var values [3]string
	for i, name := range []string{HeaderID, HeaderTimestamp, HeaderSignature} {
		all := h.Values(name)
		if len(all) != 1 || all[0] == "" {
			return "", "", nil, fmt.Errorf("%w: want one non-empty header %s, got %d headers", ErrHeader, name, len(all))
		}
		values[i] = all[0]
	}
	if err := checkID(values[0]); err != nil {
		return "", "", nil, fmt.Errorf("%w: %w", ErrHeader, err)
	}
	if len(values[2]) > signatureHeaderMax {
		return "", "", nil, fmt.Errorf("%w: %s has more than %d bytes", ErrHeader, HeaderSignature, signatureHeaderMax)
	}
	for text := range strings.SplitSeq(values[2], " ") {
		encoded, ours := strings.CutPrefix(text, signaturePrefix)
		if !ours { // another scheme, such as v1a
			continue
		}
		if sum, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			given = append(given, sum)
		}
	}
	return values[0], values[1], given, nil
}

func (v *Verifier) timestamp(seconds string) (time.Time, error) {
	n, err := strconv.ParseUint(seconds, 10, 63)
	if err != nil || len(seconds) > timestampDigitsMax || strconv.FormatUint(n, 10) != seconds {
		return time.Time{}, fmt.Errorf("%w: %s is not a number of seconds", ErrHeader, HeaderTimestamp)
	}
	at := time.Unix(int64(n), 0)
	now := time.Now
	if v.Now != nil {
		now = v.Now
	}
	tolerance := v.Tolerance
	tolerance = cmp.Or(tolerance, ToleranceDefault)
	if apart := now().Sub(at).Abs(); tolerance > 0 && apart > tolerance {
		return time.Time{}, fmt.Errorf("%w: %v from the local clock, limit %v", ErrTimestamp, apart.Round(time.Second), tolerance)
	}
	return at, nil
}

// matches compares all pairs, so that its duration does not reveal the position of a difference.
func (v *Verifier) matches(given [][]byte, id, seconds string, body []byte) bool {
	found := 0
	for _, s := range v.Secrets {
		want := s.sum(id, seconds, body)
		for _, sum := range given {
			found |= subtle.ConstantTimeCompare(want, sum)
		}
	}
	return found == 1
}
