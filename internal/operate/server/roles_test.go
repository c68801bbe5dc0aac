package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/webhook"
)

// receiver is a receiver of webhooks.
type receiver struct {
	*httptest.Server
	secret webhook.Secret
	mu     sync.Mutex
	bodies map[string]string // by the ID of the message
	again  int               // messages that came again, as after a takeover
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{secret: webhook.NewSecret(), bodies: map[string]string{}}
	verifier := webhook.Verifier{Secrets: []webhook.Secret{r.secret}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		m, err := verifier.Receive(req)
		if err != nil {
			t.Error(err)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.bodies[m.ID] != "" {
			r.again++
		}
		r.bodies[m.ID] = string(m.Body)
	}))
	t.Cleanup(r.Close)
	return r
}

// about counts the messages about an entity.
func (r *receiver) about(entity string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, body := range r.bodies {
		if strings.Contains(body, `"entity":"`+entity+`"`) {
			n++
		}
	}
	return n
}

// readsNext reads the last record before an offset of topic t.
func readsNext(t *testing.T, s *server.Server, next int64) {
	t.Helper()
	read, err := connect(t, s).Fetch(t.Context(), "t", client.FetchOptions{Offset: next - 1, Wait: time.Minute})
	must.NoErrorf(t, err, "read at a follower")
	check.Equalf(t, read.NextOffset, next, "a follower ends at offset")
	check.NoError(t, read.Close())
}

// TestServersTakeTurns: a server that was fenced serves reads, refuses writes, and delivers nothing.
// It leads again in the same process, and then delivers only what is new.
func TestServersTakeTurns(t *testing.T) {
	server.SetStandby(true)
	defer server.SetStandby(false)
	hook, bucket := newReceiver(t), "file:"+t.TempDir()
	open := func() *server.Server {
		c := settings(t, bucket)
		c.Webhooks.Targets, c.Kafka.Listen = "127.0.0.0/8", "127.0.0.1:0"
		return start(t, c)
	}
	fires := func(s *server.Server, entity string) {
		t.Helper()
		for _, name := range []string{"a", "b"} {
			if status, answer := ask(t, s, http.MethodPost, "/event", `{"event": "`+name+`", "entity_id": "`+entity+`"}`); status/100 != 2 {
				t.Fatalf("%d %s", status, answer)
			}
		}
		sebtest.Eventually(t, "message about "+entity, func() bool { return hook.about(entity) == 1 })
	}
	first := open()
	trigger := `{"expr": "a THEN b", "deliver": {"url": "` + hook.URL + `", "secrets": ["` + hook.secret.Reveal() + `"]}}`
	if status, answer := ask(t, first, http.MethodPut, "/triggers/x", trigger); status/100 != 2 {
		t.Fatalf("%d %s", status, answer)
	}
	fires(first, "u1")
	must.NoError(t, produce(t, connect(t, first)))

	second := open()
	must.Error(t, produce(t, connect(t, first)), "a deposed leader acknowledged records")
	sebtest.Eventually(t, "the fenced server follows", first.Node().Follows)
	if status, answer := ask(t, first, http.MethodPost, "/event", `{"event": "a", "entity_id": "u9"}`); status != http.StatusServiceUnavailable {
		t.Errorf("write to a follower: %d %s", status, answer)
	}
	must.NoError(t, produce(t, connect(t, second)))
	readsNext(t, first, 2)
	fires(second, "u2")

	n := first.Node()
	sebtest.Eventually(t, "the first server leads again", func() bool {
		return n.Confirm(t.Context()) == nil && n.Stand(t.Context()) == nil
	})
	fires(first, "u3")
	must.NoError(t, produce(t, connect(t, first)))
	for _, entity := range []string{"u1", "u2", "u3"} {
		check.Equalf(t, hook.about(entity), 1, "messages about %s", entity)
	}
	if hook.again > 2 { // the last message, if its delivery was not stored yet when another server took over
		t.Errorf("%d messages came again after two takeovers", hook.again)
	}
	for _, s := range []*server.Server{first, second} {
		select {
		case <-s.Done():
			t.Errorf("a server has ended: %v", s.Err())
		default:
		}
		check.NoError(t, s.Close(context.Background()))
	}
}
