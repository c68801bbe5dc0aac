package seb_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/operate/node"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/webhook"
)

// trigger defines a trigger through a server on a bucket that no other broker has open.
func trigger(t *testing.T, bucket, expr, deliver string) {
	t.Helper()
	n := must.Get(node.Open(t.Context(), node.Options{Bucket: bucket}))(t)
	e := must.Get(driplang.Parse(expr))(t)
	must.Get(n.Triggers().Put(t.Context(), rule.Definition{ID: "x", Text: expr, Expr: e, Version: 1, Deliver: json.RawMessage(deliver)}, nil))(t)
	must.NoError(t, n.Close(t.Context()))
}

func TestWhatTriggersFireIsDelivered(t *testing.T) {
	secret := webhook.NewSecret()
	verifier := webhook.Verifier{Secrets: []webhook.Secret{secret}}
	came := make(chan webhook.Firing, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		m, err := verifier.Receive(r)
		var f webhook.Firing
		if err == nil {
			err = json.Unmarshal(m.Body, &f)
		}
		check.NoError(t, err)
		came <- f
	}))
	t.Cleanup(receiver.Close)
	bucket := t.TempDir()
	trigger(t, bucket, "signup THEN purchase", `{"url":"`+receiver.URL+`","secrets":["`+secret.Reveal()+`"]}`)

	// A broker with NoDelivery leaves the firing to the next broker.
	b := open(t, seb.Options{Bucket: bucket, NoDelivery: true})
	event := func(name, entity string) {
		value := `{"event":"` + name + `","entity_id":"` + entity + `"}`
		must.Get(b.Produce(t.Context(), "events", 0, record.Record{Key: []byte(entity), Value: []byte(value)}))(t)
	}
	event("signup", "u1")
	event("purchase", "u1")
	firing(t, b)
	select {
	case f := <-came:
		t.Fatalf("without delivery: %+v", f)
	default:
	}
	must.NoError(t, b.Close(t.Context()))

	b = open(t, seb.Options{Bucket: bucket, WebhookTargets: []string{"127.0.0.0/8"}, SecretsKeys: secrets.NewKey().Reveal()})
	event("signup", "u2")
	event("purchase", "u2")
	got := map[string]int{}
	for range 2 {
		select {
		case f := <-came:
			got[f.Data.Entity] = len(f.Data.Witness)
		case <-time.After(time.Minute):
			t.Fatalf("delivered %v", got)
		}
	}
	if got["u1"] != 2 || got["u2"] != 2 {
		t.Errorf("delivered %v", got)
	}
	sebtest.Eventually(t, "encrypted secrets in the bucket", func() (found bool) {
		_ = filepath.WalkDir(bucket, func(path string, _ fs.DirEntry, _ error) error {
			text, _ := os.ReadFile(path)
			found = found || bytes.Contains(text, []byte(secrets.ValuePrefix))
			return nil
		})
		return found
	})
	must.NoError(t, b.Close(context.Background()))
}

// firing waits until the log has a firing.
func firing(t *testing.T, b *seb.Broker) {
	t.Helper()
	for r, err := range b.Records(t.Context(), "firings", seb.ReadOptions{Follow: true}) {
		must.NoError(t, err)
		if len(r.Value) > 0 {
			return
		}
	}
}

func TestWebhookTargetsAreChecked(t *testing.T) {
	_, err := seb.Open(t.Context(), seb.Options{Bucket: "mem:", WebhookTargets: []string{"10.0.0.0/8", "localhost"}})
	if err == nil || !strings.Contains(err.Error(), "Options.WebhookTargets") || !strings.Contains(err.Error(), `"localhost"`) {
		t.Errorf("got %v", err)
	}
	_, err = seb.Open(t.Context(), seb.Options{Bucket: "mem:", SecretsKeys: "x"})
	check.ErrorContains(t, err, "Options.SecretsKeys")
}
