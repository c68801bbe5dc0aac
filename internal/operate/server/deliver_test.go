package server_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/webhook"
)

// ask sends a request with a JSON body.
func ask(t *testing.T, s *server.Server, method, path, body string) (status int, answer string) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), method, s.URL()+path, strings.NewReader(body)))(t)
	req.Header.Set("Authorization", "Bearer "+s.APIKey())
	req.Header.Set("Content-Type", "application/json")
	resp := must.Get(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, string(b)
}

// TestWebhook: a trigger and events over HTTP lead to a message at a receiver that only the flag
// allows. A stop does not wait for a receiver that hangs.
func TestWebhook(t *testing.T) {
	secret := webhook.NewSecret()
	verifier := webhook.Verifier{Secrets: []webhook.Secret{secret}}
	came := make(chan string, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		m, err := verifier.Receive(r)
		check.NoError(t, err)
		came <- string(m.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(receiver.Close)
	trigger := `{"expr": "a THEN b", "deliver": {"url": "` + receiver.URL + `", "secrets": ["` + secret.Reveal() + `"]}}`

	c := settings(t, "mem:")
	s := start(t, c)
	if status, answer := ask(t, s, http.MethodPut, "/triggers/x", trigger); status != http.StatusBadRequest || !strings.Contains(answer, "loopback") {
		t.Errorf("without the flag: %d %s", status, answer)
	}
	must.NoError(t, s.Close(context.Background()))

	c.Webhooks.Targets = "127.0.0.0/8"
	s = start(t, c)
	if status, answer := ask(t, s, http.MethodPut, "/triggers/x", trigger); status/100 != 2 || strings.Contains(answer, secret.Reveal()) {
		t.Fatalf("%d %s", status, answer)
	}
	for _, name := range []string{"a", "b"} {
		if status, answer := ask(t, s, http.MethodPost, "/event", `{"event": "`+name+`", "entity_id": "u1"}`); status/100 != 2 {
			t.Fatalf("%d %s", status, answer)
		}
	}
	if body := <-came; !strings.Contains(body, `"trigger":"x"`) || !strings.Contains(body, `"entity":"u1"`) {
		t.Errorf("message %s", body)
	}
	// Once the engine has read an event with an ID, a repeated post is reported as a duplicate.
	again := func() string {
		status, answer := ask(t, s, http.MethodPost, "/event", `{"event": "a", "entity_id": "u2", "id": "k"}`)
		must.Equalf(t, status/100, 2, "%d %s", status, answer)
		return answer
	}
	first := again()
	_, rest, _ := strings.Cut(first, `"offset":`)
	offset, _, _ := strings.Cut(rest, ",")
	if strings.Contains(first, `"duplicate":true`) || offset == "" {
		t.Errorf("first post: %s", first)
	}
	sebtest.Eventually(t, "an answer reports a duplicate", func() bool {
		now := again()
		if strings.Contains(now, `"duplicate":false`) {
			t.Fatalf("duplicate of the first post: %s", now)
		}
		return strings.Contains(now, `"duplicate":true,"original_offset":`+offset+"}")
	})
	check.NoErrorf(t, s.Close(context.Background()), "stop")
}
