package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/webhook"
)

// fixture is a receiver's file and secret.
type fixture struct {
	*testing.T
	path   string
	secret webhook.Secret
}

func (w *fixture) open() *receiver {
	w.Helper()
	box, err := openMailbox(w.path)
	must.NoError(w, err)
	w.Cleanup(func() { close(box.letters) })
	return &receiver{verifier: webhook.Verifier{Secrets: []webhook.Secret{w.secret}}, box: box}
}

// post sends a message and returns the status of the answer.
func (w *fixture) post(r *receiver, id, body string, secret webhook.Secret) int {
	w.Helper()
	req := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(body))
	must.NoError(w, webhook.Sign(req.Header, id, time.Now(), []byte(body), secret))
	answer := httptest.NewRecorder()
	r.hook(answer, req)
	return answer.Code
}

// kept returns the IDs of the mails in the file.
func (w *fixture) kept() string {
	w.Helper()
	text, err := os.ReadFile(w.path)
	must.NoError(w, err)
	var ids []string
	for line := range strings.Lines(string(text)) {
		ids = append(ids, strings.Split(line, `"`)[3])
	}
	return strings.Join(ids, " ")
}

func TestReceiverKeepsEachMailOnce(t *testing.T) {
	w := &fixture{t, filepath.Join(t.TempDir(), "mails"), webhook.NewSecret()}
	const body = `{"trigger":"t","entity":"u","to":"u@example.com","subject":"s","text":"x"}`
	r := w.open()
	for _, c := range []struct {
		id, body string
		secret   webhook.Secret
		code     int
	}{
		{"1", body, w.secret, 200},
		{"1", body, w.secret, 200},
		{"2", body, webhook.NewSecret(), 401},
		{"2", `{`, w.secret, 400},
		{"2", `{}`, w.secret, 400},
		{"2-retracted", body, w.secret, 200}, // of an unknown firing
		{"1-retracted", body, w.secret, 200},
	} {
		if code := w.post(r, c.id, c.body, c.secret); code != c.code {
			t.Errorf("%s: %d, want %d", c.id, code, c.code)
		}
	}
	if got := w.kept(); got != "1 1-retracted" {
		t.Errorf("kept %s", got)
	}
	// A receiver was killed during a write.
	f, err := os.OpenFile(w.path, os.O_WRONLY|os.O_APPEND, 0)
	must.NoError(t, err)
	fmt.Fprint(f, `{"id":"3","sent_`)
	must.NoError(t, f.Close())
	r = w.open()
	for _, id := range []string{"1", "3", "3"} {
		if code := w.post(r, id, body, w.secret); code != 200 {
			t.Errorf("%s: %d", id, code)
		}
	}
	if got := w.kept(); got != "1 1-retracted 3" {
		t.Errorf("kept %s", got)
	}
}
