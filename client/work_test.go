package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb"
	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// queueBroker starts a broker with the queue jobs, and returns a client of it.
func queueBroker(t testing.TB, settings map[string]string) *client.Client {
	t.Helper()
	b := must.Get(seb.Open(t.Context(), seb.Options{Bucket: "mem:", APIKey: "a-key-of-the-test-of-workers"}))(t)
	server := httptest.NewServer(b.Handler())
	c := must.Get(client.New(server.URL, client.Options{APIKey: "a-key-of-the-test-of-workers"}))(t)
	t.Cleanup(func() {
		c.Close()
		check.NoError(t, b.Close(context.Background()))
		server.Close()
	})
	must.Get(c.CreateQueue(t.Context(), "jobs", client.QueueSpec{Settings: settings}))(t)
	return c
}

func sendJobs(t testing.TB, c *client.Client, values ...string) {
	t.Helper()
	var list []client.OutgoingMessage
	for _, v := range values {
		list = append(list, client.OutgoingMessage{Value: &v})
	}
	must.Get(c.SendMessages(t.Context(), "jobs", list...))(t)
}

// TestWork: messages come with all bytes, several at once, and each outcome takes effect.
func TestWork(t *testing.T) {
	c := queueBroker(t, map[string]string{"max-deliveries": "2", "backoff": "0s"})
	sendJobs(t, c, "fine", "panics", "dead", "later")
	must.Get(c.SendMessages(t.Context(), "jobs", client.OutgoingMessage{
		KeyBase64: new("/w=="), ValueBase64: new("/gA="), Headers: []api.Header{{Key: "h", Value: new("v")}, {Key: "n"}},
	}))(t)
	var mu sync.Mutex
	var ran, told []string
	o := client.WorkOptions{Concurrency: 3, UntilEmpty: true, OnError: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		line, _, _ := strings.Cut(err.Error(), "\n")
		told = append(told, line)
	}}
	check.NoError(t, c.Work(t.Context(), "jobs", o, func(_ context.Context, m *client.LeasedMessage) error {
		mu.Lock()
		ran = append(ran, fmt.Sprintf("%s %d %q", m.ID, m.Deliveries, m.Value))
		mu.Unlock()
		switch string(m.Value) {
		case "panics":
			panic("boom")
		case "dead":
			return fmt.Errorf("mail: %w", client.GiveUp(errors.New("no such user")))
		case "later":
			return client.RetryAfter(1e12, errors.New("greylist"))
		case "\xfe\x00":
			if !bytes.Equal(m.Key, []byte{0xff}) || len(m.Headers) != 2 || string(m.Headers[0].Value) != "v" || m.Headers[1].Value != nil || m.Sent.IsZero() {
				t.Errorf("got %+v", m)
			}
		}
		return nil
	}))
	slices.Sort(ran)
	check.Equal(t, strings.Join(ran, ", "), `0-0 1 "fine", 0-1 1 "panics", 0-1 2 "panics", 0-2 1 "dead", 0-3 1 "later", 0-4 1 "\xfe\x00"`)
	check.Equal(t, strings.Join(told, ", "), "message 0-1: panic: boom, message 0-1: panic: boom")
	letters, _ := must.Get2(c.Messages(t.Context(), "jobs.dead", client.MessageQuery{}))(t)
	var reasons []string
	for _, m := range letters {
		for _, h := range m.Headers {
			if h.Key == "seb-reason" {
				reasons = append(reasons, *m.Value+": "+*h.Value)
			}
		}
	}
	slices.Sort(reasons)
	check.Equal(t, strings.Join(reasons, ", "), "dead: mail: no such user, panics: panic: boom")
	waiting, _ := must.Get2(c.Messages(t.Context(), "jobs", client.MessageQuery{State: "retry"}))(t)
	if len(waiting) != 1 || waiting[0].ID != "0-3" || waiting[0].Tries[0].Reason != "greylist" {
		t.Errorf("retry: %+v", waiting)
	}
}

// leaseEnd returns the end of the lease of the only message, or zero. The log knows it with the next record.
func leaseEnd(t *testing.T, c *client.Client) (until time.Time) {
	t.Helper()
	must.Get(c.ProduceValues(t.Context(), "other", [][]byte{nil}, client.ProduceOptions{}))(t)
	list, _ := must.Get2(c.Messages(t.Context(), "jobs", client.MessageQuery{State: "leased"}))(t)
	for _, m := range list {
		until = m.Until
	}
	return until
}

// TestWorkExtends: the lease of a function that runs longer is extended, and a stop waits for it.
func TestWorkExtends(t *testing.T) {
	c := queueBroker(t, map[string]string{"visibility": "2s"})
	sendJobs(t, c, "long")
	ctx, stop := context.WithCancel(t.Context())
	o := client.WorkOptions{OnError: func(err error) { t.Error(err); stop() }}
	check.NoError(t, c.Work(ctx, "jobs", o, func(ctx context.Context, _ *client.LeasedMessage) error {
		first := leaseEnd(t, c)
		sebtest.Eventually(t, "the lease is extended", func() bool { return leaseEnd(t, c).After(first) })
		stop()
		return ctx.Err()
	}))
	q := must.Get(c.Queue(t.Context(), "jobs"))(t)
	check.Equal(t, fmt.Sprint(q.Ready, q.Leased, q.Retry), "0 0 0")
}

// TestWorkLosesLease: the context of a function ends when another worker may have its message.
func TestWorkLosesLease(t *testing.T) {
	c := queueBroker(t, map[string]string{"visibility": "1s"})
	sendJobs(t, c, "lost")
	ctx, stop := context.WithCancel(t.Context())
	lost := make(chan error, 1)
	check.NoError(t, c.Work(ctx, "jobs", client.WorkOptions{OnError: func(err error) { lost <- err }}, func(ctx context.Context, _ *client.LeasedMessage) error {
		must.Get(c.PurgeQueue(t.Context(), "jobs"))(t)
		<-ctx.Done()
		check.ErrorIs(t, context.Cause(ctx), client.ErrLeaseLost)
		stop()
		return nil
	}))
	check.ErrorIs(t, <-lost, client.ErrLeaseLost)
}

// TestWorkRefusals: what no repetition can change ends Work.
func TestWorkRefusals(t *testing.T) {
	c := queueBroker(t, nil)
	none := func(context.Context, *client.LeasedMessage) error { return nil }
	check.ErrorIs(t, c.Work(t.Context(), "none", client.WorkOptions{}, none), client.ErrUnknownTopic)
	check.ErrorContains(t, c.Work(t.Context(), "jobs", client.WorkOptions{Visibility: 1}, none), "visibility: 1ns is not between 1s and 12h")
	sendJobs(t, c, "v")
	check.ErrorIs(t, c.Work(t.Context(), "jobs", client.WorkOptions{}, func(context.Context, *client.LeasedMessage) error {
		return c.DeleteQueue(t.Context(), "jobs")
	}), client.ErrUnknownTopic)
}

// BenchmarkWork works off messages of 1 KiB with 16 functions that return at once.
func BenchmarkWork(b *testing.B) {
	c := queueBroker(b, nil)
	value := strings.Repeat("x", 1024)
	for left := b.N; left > 0; left -= 1000 {
		sendJobs(b, c, slices.Repeat([]string{value}, min(left, 1000))...)
	}
	b.ResetTimer()
	must.NoError(b, c.Work(b.Context(), "jobs", client.WorkOptions{Concurrency: 16, UntilEmpty: true}, func(context.Context, *client.LeasedMessage) error {
		return nil
	}))
}
