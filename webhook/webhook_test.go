package webhook_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/webhook"
)

// The test vector that the specification's libraries share.
const (
	vectorKey  = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	vectorID   = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	vectorBody = `{"test": 2432232314}`
	vectorSum  = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	vectorUnix = 1614265330
)

func secretOf(t testing.TB, text string) webhook.Secret {
	t.Helper()
	s := must.Get(webhook.ParseSecret(text))(t)
	return s
}

func clockAt(at time.Time) func() time.Time { return func() time.Time { return at } }

func TestPublishedVector(t *testing.T) {
	h := http.Header{}
	secret := secretOf(t, "whsec_"+vectorKey)
	must.NoError(t, webhook.Sign(h, vectorID, time.Unix(vectorUnix, 999), []byte(vectorBody), secret))
	want := http.Header{
		"Webhook-Id": {vectorID}, "Webhook-Timestamp": {strconv.Itoa(vectorUnix)}, "Webhook-Signature": {vectorSum},
	}
	must.Equalf(t, fmt.Sprint(h), fmt.Sprint(want), "headers %v, want %v", h, want)
	v := webhook.Verifier{Secrets: []webhook.Secret{secret}, Now: clockAt(time.Unix(vectorUnix, 0))}
	got, err := v.Verify(h, []byte(vectorBody))
	if err != nil || got.ID != vectorID || got.SentAt.Unix() != vectorUnix || string(got.Body) != vectorBody {
		t.Fatalf("verified as %+v, %v", got, err)
	}
}

func TestVerifyRefuses(t *testing.T) {
	secret, other := secretOf(t, "whsec_"+vectorKey), webhook.NewSecret()
	now := time.Unix(vectorUnix, 0)
	set := func(name string, values ...string) func(http.Header) {
		return func(h http.Header) { h[name] = values }
	}
	tests := []struct {
		name   string
		change func(http.Header)
		now    time.Time
		body   string
		want   error
	}{
		{name: "no id", change: set(webhook.HeaderID), want: webhook.ErrHeader},
		{name: "two ids", change: set(webhook.HeaderID, vectorID, vectorID), want: webhook.ErrHeader},
		{name: "another id", change: set(webhook.HeaderID, "msg_2"), want: webhook.ErrSignature},
		{name: "an id with a full stop", change: set(webhook.HeaderID, "msg.1"), want: webhook.ErrHeader},
		{name: "no timestamp", change: set(webhook.HeaderTimestamp), want: webhook.ErrHeader},
		{name: "a timestamp with a sign", change: set(webhook.HeaderTimestamp, "+1614265330"), want: webhook.ErrHeader},
		{name: "a timestamp with a leading zero", change: set(webhook.HeaderTimestamp, "01614265330"), want: webhook.ErrHeader},
		{name: "a timestamp far away", change: set(webhook.HeaderTimestamp, "999999999999"), want: webhook.ErrTimestamp},
		{name: "a timestamp too long", change: set(webhook.HeaderTimestamp, "9223372036854775807"), want: webhook.ErrHeader},
		{name: "a changed timestamp", change: set(webhook.HeaderTimestamp, "1614265331"), want: webhook.ErrSignature},
		{name: "no signature", change: set(webhook.HeaderSignature), want: webhook.ErrHeader},
		{name: "a signature without a version", change: set(webhook.HeaderSignature, vectorSum[3:]), want: webhook.ErrSignature},
		{name: "a signature of another version", change: set(webhook.HeaderSignature, "v2"+vectorSum[2:]), want: webhook.ErrSignature},
		{name: "half a signature", change: set(webhook.HeaderSignature, vectorSum[:20]), want: webhook.ErrSignature},
		{name: "an empty signature", change: set(webhook.HeaderSignature, "v1,"), want: webhook.ErrSignature},
		{name: "too many signatures", change: set(webhook.HeaderSignature, strings.Repeat(vectorSum+" ", 100)), want: webhook.ErrHeader},
		{name: "another body", body: `{"test": 2432232315}`, want: webhook.ErrSignature},
		{name: "too late", now: now.Add(webhook.ToleranceDefault + 1), want: webhook.ErrTimestamp},
		{name: "too early", now: now.Add(-webhook.ToleranceDefault - 1), want: webhook.ErrTimestamp},
		{name: "just in time", now: now.Add(webhook.ToleranceDefault)},
		{name: "one of several signatures", change: set(webhook.HeaderSignature, "v1,Zm9v v1a,Zm9v "+vectorSum+" v1,!")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{}
			must.NoError(t, webhook.Sign(h, vectorID, now, []byte(vectorBody), secret))
			if tt.change != nil {
				tt.change(h)
			}
			clock, body := tt.now, tt.body
			if clock.IsZero() {
				clock = now
			}
			if body == "" {
				body = vectorBody
			}
			v := webhook.Verifier{Secrets: []webhook.Secret{other, secret}, Now: clockAt(clock)}
			check.ErrorIsf(t, check.Err(v.Verify(h, []byte(body))), tt.want, "error")
		})
	}
}

func TestRotation(t *testing.T) {
	old, fresh, other := webhook.NewSecret(), webhook.NewSecret(), webhook.NewSecret()
	h := http.Header{}
	must.NoError(t, webhook.Sign(h, "a1", time.Now(), nil, old, fresh))
	for _, tt := range []struct {
		secrets []webhook.Secret
		want    error
	}{
		{[]webhook.Secret{old}, nil},
		{[]webhook.Secret{fresh}, nil},
		{[]webhook.Secret{other, fresh, old}, nil},
		{[]webhook.Secret{other}, webhook.ErrSignature},
	} {
		check.ErrorIsf(t, check.Err((&webhook.Verifier{Secrets: tt.secrets}).Verify(h, nil)), tt.want, "with %d secrets", len(tt.secrets))
	}
	check.Error(t, check.Err((&webhook.Verifier{}).Verify(h, nil)), "a verifier without secrets has verified")
	check.Error(t, check.Err((&webhook.Verifier{Secrets: []webhook.Secret{{}}}).Verify(h, nil)), "a verifier with an empty secret has verified")
}

func TestSignRefuses(t *testing.T) {
	secret := webhook.NewSecret()
	for _, tt := range []struct {
		id      string
		at      time.Time
		secrets []webhook.Secret
	}{
		{"", time.Now(), []webhook.Secret{secret}},
		{"a.b", time.Now(), []webhook.Secret{secret}},
		{"a b", time.Now(), []webhook.Secret{secret}},
		{"a\r\nHost: x", time.Now(), []webhook.Secret{secret}},
		{strings.Repeat("a", webhook.IDBytesMax+1), time.Now(), []webhook.Secret{secret}},
		{"a", time.Time{}, []webhook.Secret{secret}},
		{"a", time.Now(), nil},
		{"a", time.Now(), []webhook.Secret{{}}},
		{"a", time.Now(), make([]webhook.Secret, webhook.SecretsMax+1)},
	} {
		h := http.Header{}
		if err := webhook.Sign(h, tt.id, tt.at, nil, tt.secrets...); err == nil || len(h) != 0 {
			t.Errorf("id %q, %v, %d secrets: error %v, headers %v", tt.id, tt.at, len(tt.secrets), err, h)
		}
	}
}

func TestParseSecret(t *testing.T) {
	of := func(n int) string { return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n)) }
	for _, tt := range []struct {
		text string
		ok   bool
	}{
		{of(24), true},
		{of(64), true},
		{of(23), false},
		{of(65), false},
		{strings.Replace(of(25), "A==", "B==", 1), false}, // bits beyond the last byte
		{of(66), false},
		{"", false},
		{vectorKey, false},
		{"whsk_" + vectorKey, false},
		{"whsec_" + vectorKey + "\n", false},
		{"whsec_" + vectorKey[:31], false},
		{"whsec_" + strings.Repeat("A", 1<<20), false},
	} {
		s, err := webhook.ParseSecret(tt.text)
		check.Equalf(t, err == nil, tt.ok, "%.40q: error %v", tt.text, err)
		if err == nil && s.Reveal() != tt.text {
			t.Errorf("%q: Reveal returns %q", tt.text, s.Reveal())
		}
		if err != nil && len(tt.text) > 10 && strings.Contains(err.Error(), tt.text[6:12]) {
			t.Errorf("the error repeats the secret: %v", err)
		}
	}
}

func TestSecretsAreMasked(t *testing.T) {
	secret := secretOf(t, "whsec_"+vectorKey)
	var out bytes.Buffer
	inside := struct {
		hidden webhook.Secret
		Shown  *webhook.Secret
	}{secret, &secret}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%c", "%b"} {
		fmt.Fprintf(&out, verb+" "+verb+" "+verb+"\n", secret, inside, []webhook.Secret{secret})
	}
	encoded := must.Get(json.Marshal(map[string]any{"secret": secret}))(t)
	out.Write(encoded)
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "secret", secret, "inside", inside)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "secret", secret)
	key, _ := base64.StdEncoding.DecodeString(vectorKey)
	for _, leak := range []string{vectorKey, string(key), fmt.Sprintf("%x", key), fmt.Sprintf("%X", key), strings.Trim(fmt.Sprint(key), "[]")} {
		if strings.Contains(out.String(), leak) {
			t.Errorf("the secret is shown as %q in:\n%s", leak, out.String())
		}
	}
}

func TestReceiveReadsNoMoreThanItsLimit(t *testing.T) {
	secret := webhook.NewSecret()
	v := webhook.Verifier{Secrets: []webhook.Secret{secret}}
	for _, tt := range []struct {
		size int
		want error
	}{{webhook.BodyBytesMax, nil}, {webhook.BodyBytesMax + 1, webhook.ErrTooLarge}} {
		body := make([]byte, tt.size)
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		must.NoError(t, webhook.Sign(r.Header, "a", time.Now(), body, secret))
		check.ErrorIsf(t, check.Err(v.Receive(r)), tt.want, "a body of %d bytes", tt.size)
	}
}

func FuzzParseSecret(f *testing.F) {
	f.Add("whsec_" + vectorKey)
	f.Add("whsec_" + vectorKey + "==")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := webhook.ParseSecret(text)
		if err == nil && s.Reveal() != text {
			t.Errorf("%q: Reveal returns %q", text, s.Reveal())
		}
		if (err == nil) == s.IsZero() {
			t.Errorf("%q: error %v, empty %v", text, err, s.IsZero())
		}
	})
}

// FuzzVerify verifies arbitrary headers: only an unchanged signed message is accepted.
func FuzzVerify(f *testing.F) {
	f.Add(vectorID, strconv.Itoa(vectorUnix), vectorSum, []byte(vectorBody))
	f.Add("a", "1", "v1,a v1,b v1a,c", []byte{})
	secret := secretOf(f, "whsec_"+vectorKey)
	v := webhook.Verifier{Secrets: []webhook.Secret{secret}, Tolerance: -1}
	f.Fuzz(func(t *testing.T, id, timestamp, signature string, body []byte) {
		h := http.Header{webhook.HeaderID: {id}, webhook.HeaderTimestamp: {timestamp}, webhook.HeaderSignature: {signature}}
		got, err := v.Verify(h, body)
		if err != nil {
			return
		}
		again := http.Header{}
		must.NoError(t, webhook.Sign(again, got.ID, got.SentAt, body, secret))
		if again.Get(webhook.HeaderTimestamp) != timestamp || id != got.ID {
			t.Errorf("verified %q at %q as %q at %v", id, timestamp, got.ID, got.SentAt)
		}
		sum := strings.TrimRight(strings.TrimPrefix(again.Get(webhook.HeaderSignature), "v1,"), "=")
		check.Containsf(t, strings.NewReplacer("\r", "", "\n", "").Replace(signature), sum[:len(sum)-1], "verified by %q, the signature is %q", signature, sum)
	})
}
