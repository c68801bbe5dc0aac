package webhook

import (
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
	// ErrHeader is a message whose headers are missing, twice there or not to be read.
	ErrHeader = errors.New("webhook: bad headers")
	// ErrTimestamp is a message that was sent too long ago, or in the future: a repetition, or a clock is wrong.
	ErrTimestamp = errors.New("webhook: timestamp out of tolerance")
	// ErrSignature is a message that none of the secrets has signed.
	ErrSignature = errors.New("webhook: no signature matches")
	// ErrTooLarge is a body over the limit.
	ErrTooLarge = errors.New("webhook: body too large")
)

const (
	// ToleranceDefault is how far a message's timestamp may be from the receiver's clock unless a Verifier says otherwise.
	ToleranceDefault = 5 * time.Minute
	// BodyBytesMax is the largest body that Receive reads; Seb sends at most a quarter of it.
	BodyBytesMax = 1 << 20

	signatureHeaderMax = 4 << 10
	timestampDigitsMax = 12
)

// Verifier verifies messages. Its fields are set before the first use; then it may be used concurrently.
type Verifier struct {
	// Secrets are those that a message may be signed with: one of them is enough. While secrets are being changed, the old
	// and the new one.
	Secrets []Secret
	// Tolerance is how far a message's timestamp may be from the clock, in both directions; 0 means ToleranceDefault,
	// negative any distance.
	Tolerance time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Received is a message that was verified.
type Received struct {
	// ID is the same at every attempt to deliver the message: keep those that were seen, and leave out repetitions.
	ID string
	// SentAt is when this attempt was made, in whole seconds.
	SentAt time.Time
	Body   []byte
}

// Receive reads the body of a request, at most BodyBytesMax, and verifies it. The error is one of ErrHeader, ErrTimestamp,
// ErrSignature, ErrTooLarge, or what reading the body returned.
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

// Verify verifies a message of which the body was read already, byte for byte as it came. The body of what it returns is the
// one that was given.
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

// read takes the three headers apart; of the signatures those of our version remain, as bytes.
func read(h http.Header) (id, seconds string, given [][]byte, err error) {
	var values [3]string
	for i, name := range []string{HeaderID, HeaderTimestamp, HeaderSignature} {
		all := h.Values(name)
		if len(all) != 1 || all[0] == "" {
			return "", "", nil, fmt.Errorf("%w: want %s once, it is there %d times", ErrHeader, name, len(all))
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
		if !ours { // another scheme's, such as v1a
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
		return time.Time{}, fmt.Errorf("%w: %s is no number of seconds", ErrHeader, HeaderTimestamp)
	}
	at := time.Unix(int64(n), 0)
	now := time.Now
	if v.Now != nil {
		now = v.Now
	}
	tolerance := v.Tolerance
	if tolerance == 0 {
		tolerance = ToleranceDefault
	}
	if apart := now().Sub(at).Abs(); tolerance > 0 && apart > tolerance {
		return time.Time{}, fmt.Errorf("%w: %v from here, at most %v are allowed", ErrTimestamp, apart.Round(time.Second), tolerance)
	}
	return at, nil
}

// matches compares all with all, so that the time it takes tells nothing about where they differ.
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
