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

	"github.com/sebbroker/seb/test/check"
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
	box := must.Get(openMailbox(w.path))(w)
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
	text := must.Get(os.ReadFile(w.path))(w)
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
		check.Equalf(t, w.post(r, c.id, c.body, c.secret), c.code, "%s", c.id)
	}
	check.Equalf(t, w.kept(), "1 1-retracted", "kept")
	// A receiver was killed during a write.
	f := must.Get(os.OpenFile(w.path, os.O_WRONLY|os.O_APPEND, 0))(t)
	fmt.Fprint(f, `{"id":"3","sent_`)
	must.NoError(t, f.Close())
	r = w.open()
	for _, id := range []string{"1", "3", "3"} {
		check.Equalf(t, w.post(r, id, body, w.secret), 200, "%s", id)
	}
	check.Equalf(t, w.kept(), "1 1-retracted 3", "kept")
}
