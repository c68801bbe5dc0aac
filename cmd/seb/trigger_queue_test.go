package main_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestFiringsReachAQueueOnce kills the broker between firings and their deliveries to a queue. In the end the
// queue has each firing once.
func TestFiringsReachAQueueOnce(t *testing.T) {
	p := newWorkDir(t)
	b := p.serve()
	p.must("queue", "create", "mails", "-s", "dead-letter=none", "-s", "dedup-window=1d")
	p.mustWith("id: welcome\nexpr: signup\ndeliver: {queue: mails}\n", "trigger", "apply", "--yes", "-f", "-")
	p.must("queue", "schedule", "mails", "yearly", "--cron", "@yearly")
	var events strings.Builder
	const entities = 300
	for i := range entities {
		fmt.Fprintf(&events, `{"event":"signup","entity_id":"user-%d"}`+"\n", i)
	}
	p.mustWith(events.String(), "event", "-f", "-")
	sent := func() (n int64) {
		c := must.Get(client.New(b.address(), client.Options{APIKey: p.keyOf("seb-data")}))(t)
		defer c.Close()
		return must.Get(c.Queue(t.Context(), "mails"))(t).Sent
	}
	for n := range int64(4) {
		waitFor(t, func() bool { return sent() >= min(entities, n*entities/4+1) })
		b.kill()
		b = p.serve()
	}
	waitFor(t, func() bool {
		return strings.Count(p.must("trigger", "fires", "--state", "delivered", "--limit", "1000"), "\n") == entities+1
	})
	c := must.Get(client.New(b.address(), client.Options{APIKey: p.keyOf("seb-data")}))(t)
	defer c.Close()
	list, _, err := c.Messages(t.Context(), "mails", client.MessageQuery{Limit: 1000})
	must.NoError(t, err)
	ids := map[string]bool{}
	for i := range list {
		for _, h := range list[i].Headers {
			ids[headerText(h)] = true
		}
	}
	check.Equalf(t, len(list), entities, "messages")
	check.Equalf(t, len(ids), entities, "IDs of firings")
	check.Containsf(t, p.must("queue", "schedules", "mails"), "yearly  @yearly", "schedules after kills")
}

func headerText(h api.Header) string {
	if h.Key != "webhook-id" || h.Value == nil {
		return ""
	}
	return *h.Value
}
