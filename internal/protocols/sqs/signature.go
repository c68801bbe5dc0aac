package sqs

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	algorithm = "AWS4-HMAC-SHA256"
	stampForm = "20060102T150405Z"
	// skewMax is how far the clock of a client may be from that of the broker.
	skewMax = 15 * time.Minute
	// presignedMax bounds the life of a presigned URL.
	presignedMax = 7 * 24 * time.Hour
)

// Parameters of a presigned URL.
const (
	paramAlgorithm  = "X-Amz-Algorithm"
	paramCredential = "X-Amz-Credential"
	paramDate       = "X-Amz-Date"
	paramExpires    = "X-Amz-Expires"
	paramHeaders    = "X-Amz-SignedHeaders"
	paramSignature  = "X-Amz-Signature"
)

// Signature is the Signature Version 4 of a request, in its header or its URL.
type Signature struct {
	AccessKey string
	Region    string

	scope     string // date/region/service/aws4_request
	headers   []string
	given     string
	stamp     string
	at        time.Time
	presigned bool
	life      time.Duration // of a presigned URL
}

// ParseSignature reads the signature of a request from its head, and checks its time. Error: *Error.
func ParseSignature(r *http.Request, now time.Time) (*Signature, error) {
	s := &Signature{}
	var credential, headers string
	if auth := r.Header.Values("Authorization"); len(auth) > 0 {
		kind, rest, _ := strings.Cut(auth[0], " ")
		if kind != algorithm || len(auth) > 1 {
			return nil, errIncomplete("Authorization header requires one %s.", algorithm)
		}
		for part := range strings.SplitSeq(rest, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			switch name {
			case "Credential":
				credential = value
			case "SignedHeaders":
				headers = value
			case "Signature":
				s.given = value
			}
		}
		s.stamp = r.Header.Get(paramDate)
	} else {
		q := r.URL.Query()
		if q.Get(paramAlgorithm) != algorithm {
			return nil, errUnsigned
		}
		credential, headers, s.given, s.stamp = q.Get(paramCredential), q.Get(paramHeaders), q.Get(paramSignature), q.Get(paramDate)
		seconds, err := strconv.Atoi(q.Get(paramExpires))
		s.presigned, s.life = true, time.Duration(seconds)*time.Second
		if err != nil || seconds < 1 || s.life > presignedMax {
			return nil, errIncomplete("%s must be a number of seconds between 1 and %d.", paramExpires, int(presignedMax.Seconds()))
		}
	}
	if err := s.parse(credential, headers); err != nil {
		return nil, err
	}
	return s, s.checkTime(now)
}

func (s *Signature) parse(credential, headers string) (err error) {
	parts := strings.Split(credential, "/")
	if len(parts) != 5 || headers == "" || s.given == "" {
		return errIncomplete("Authorization requires 'Credential', 'SignedHeaders' and 'Signature' parameters.")
	}
	s.AccessKey, s.Region, s.scope = parts[0], parts[2], strings.Join(parts[1:], "/")
	s.headers = strings.Split(headers, ";")
	if s.at, err = time.Parse(stampForm, s.stamp); err != nil {
		return errIncomplete("Date must be in ISO-8601 'basic format'. Got '%.40s'. See http://en.wikipedia.org/wiki/ISO_8601", s.stamp)
	}
	switch {
	case parts[1] != s.stamp[:8]:
		return errSignature("Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP.")
	case parts[3] != "sqs" || parts[4] != "aws4_request":
		return errSignature("Credential should be scoped to correct service: 'sqs'.")
	case !slices.Contains(s.headers, "host"):
		return errSignature("'Host' must be a 'SignedHeader' in the AWS Authorization.")
	}
	return nil
}

// checkTime refuses signatures of another time.
func (s *Signature) checkTime(now time.Time) error {
	life := skewMax
	if s.presigned {
		life = s.life
	}
	now = now.UTC()
	if end := now.Add(-life); s.at.Before(end) {
		return errSignature("Signature expired: %s is now earlier than %s (%s - %s)", s.stamp, end.Format(stampForm), now.Format(stampForm), span(life))
	}
	if begin := now.Add(skewMax); s.at.After(begin) {
		return errSignature("Signature not yet current: %s is still later than %s (%s + %s)", s.stamp, begin.Format(stampForm), now.Format(stampForm), span(skewMax))
	}
	return nil
}

func span(d time.Duration) string { return fmt.Sprintf("%d min.", int(d.Minutes())) }

// Verify checks the signature of a request with its whole body. Error: *Error.
func (s *Signature) Verify(r *http.Request, body []byte, secret string) error {
	for name := range r.Header { //tidy:unordered all are checked
		if low := strings.ToLower(name); strings.HasPrefix(low, "x-amz-") && !slices.Contains(s.headers, low) {
			return errSignature("The header %q must be signed.", low)
		}
	}
	sum := sha256.Sum256(body)
	head := sha256.Sum256(s.canonical(r, hex.EncodeToString(sum[:])))
	text := algorithm + "\n" + s.stamp + "\n" + s.scope + "\n" + hex.EncodeToString(head[:])
	key := []byte("AWS4" + secret)
	for part := range strings.SplitSeq(s.scope, "/") {
		key = hash(key, part)
	}
	if !hmac.Equal([]byte(hex.EncodeToString(hash(key, text))), []byte(s.given)) {
		return errSignature("The request signature we calculated does not match the signature you provided. " +
			"Check your AWS Secret Access Key and signing method. Consult the service documentation for details.")
	}
	return nil
}

func hash(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte(text))
	return mac.Sum(nil)
}

// canonical returns the text of a request that is signed.
func (s *Signature) canonical(r *http.Request, body string) []byte {
	b := append([]byte(r.Method), '\n')
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	b = append(escape(b, path, true), '\n')
	b = append(s.query(b, r.URL.RawQuery), '\n')
	for _, name := range s.headers {
		b = append(append(b, name...), ':')
		for i, v := range headerValues(r, name) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, strings.Join(strings.Fields(v), " ")...)
		}
		b = append(b, '\n')
	}
	b = append(append(append(b, '\n'), strings.Join(s.headers, ";")...), '\n')
	return append(b, body...)
}

// headerValues returns the values of a header. net/http keeps two of them elsewhere.
func headerValues(r *http.Request, name string) []string {
	switch name {
	case "host":
		return []string{r.Host}
	case "content-length":
		return []string{strconv.FormatInt(r.ContentLength, 10)}
	}
	return r.Header.Values(name)
}

// query appends the parameters in canonical form, without the signature itself.
func (s *Signature) query(b []byte, raw string) []byte {
	var list []string
	for pair := range strings.SplitSeq(raw, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		value, err2 := url.QueryUnescape(value)
		if pair == "" || err != nil || err2 != nil || s.presigned && name == paramSignature {
			continue
		}
		list = append(list, string(escape(append(escape(nil, name, false), '='), value, false)))
	}
	slices.SortFunc(list, func(a, b string) int {
		x, v, _ := strings.Cut(a, "=")
		y, w, _ := strings.Cut(b, "=")
		if c := strings.Compare(x, y); c != 0 {
			return c
		}
		return strings.Compare(v, w)
	})
	return append(b, strings.Join(list, "&")...)
}

// escape appends a text with all bytes escaped that are not unreserved in RFC 3986.
func escape(b []byte, text string, path bool) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-_.~", c) >= 0, path && c == '/':
			b = append(b, c)
		default:
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return b
}
