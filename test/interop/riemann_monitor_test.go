package interop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// hooks are the messages that a receiver of webhooks got, by path: their different IDs.
type hooks struct {
	*httptest.Server
	mu  sync.Mutex // guards ids
	ids map[string]map[string]bool
}

func newHooks(t *testing.T) *hooks {
	t.Helper()
	h := &hooks{ids: make(map[string]map[string]bool)}
	h.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.ids[r.URL.Path] == nil {
			h.ids[r.URL.Path] = make(map[string]bool)
		}
		h.ids[r.URL.Path][r.Header.Get("Webhook-Id")] = true
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hooks) count(path string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ids[path])
}

// monitors are the two expressions of docs/guide/riemann.md with short times, and one that shows that
// the triggers have read everything before it.
var monitors = map[string]string{
	"disk":   `"df-root/percent_bytes-used"[state = "critical"] THEN (NOT "df-root/percent_bytes-used"[state = "ok"] WITHIN 8 seconds)`,
	"silent": `"uptime/uptime" THEN (NOT "uptime/uptime" WITHIN 4 seconds)`,
	"end":    `finish`,
}

// TestRiemannMonitor: collectd sends the use of a disk and its uptime. The broker is killed while
// collectd runs, and again when collectd has ended, over the deadline. Each trigger sends one message.
func TestRiemannMonitor(t *testing.T) {
	testenv.InteropWanted(t)
	begin := time.Now()
	h, b := newHooks(t), serveRiemann(t, "--webhook-targets", "127.0.0.1")
	send := func(service string) {
		t.Helper()
		cRiemann(t, b).send([]riemannEvent{{Host: "test", Service: service, TTL: 3600, Kind: "d", Metric: "1"}})
	}
	send("begin") // creates the topic
	api := func() *client.Client {
		c := must.Get(client.New(b.HTTP(), client.Options{APIKey: testenv.InteropKey}))(t)
		t.Cleanup(c.Close)
		return c
	}
	c := api()
	for name, expr := range monitors {
		deliver := fmt.Sprintf(`{"url":%q,"secrets":["whsec_TU9OSVRPUi13ZWJob29rLXNlY3JldC0wMDE="]}`, h.URL+"/"+name)
		must.Get(c.PutTrigger(t.Context(), name, client.TriggerSpec{Expr: expr, Topic: "riemann", Fire: "reset", Deliver: json.RawMessage(deliver)}))(t)
	}
	daemon := newCollectd(t, "0.5", fmt.Sprintf(collectdMonitor, b.port))
	arrives := func(c *client.Client, query string) {
		t.Helper()
		sebtest.Eventually(t, query, func() bool {
			list, err := c.RiemannIndex(t.Context(), query)
			return err == nil && len(list.Events) > 0
		})
	}
	arrives(c, `service = "df-root/percent_bytes-used" and state = "critical"`)
	arrives(c, `service = "uptime/uptime" and not state = "expired"`)
	b.Restart(0)
	arrives(api(), fmt.Sprintf(`service = "uptime/uptime" and not state = "expired" and time > %d`, time.Now().Unix()))
	daemon.Kill()
	b.Restart(5 * time.Second)
	for _, name := range []string{"disk", "silent"} {
		sebtest.Eventually(t, "a message of "+name, func() bool { return h.count("/"+name) > 0 })
	}
	b.Restart(0)
	send("finish")
	sebtest.Eventually(t, "the last message", func() bool { return h.count("/end") > 0 })
	for name := range monitors {
		if n := h.count("/" + name); n != 1 {
			t.Errorf("%s sent %d messages, want 1", name, n)
		}
	}
	silentAfter(t, api(), "uptime/uptime", 4*time.Second)
	report(t, "collectd", "a full disk and a silent host, once each over kill -9", time.Since(begin))
}

// silentAfter checks that the trigger silent fired once, a time after the last event of a service. The
// expired record of that event does not count as one.
func silentAfter(t *testing.T, c *client.Client, service string, want time.Duration) {
	t.Helper()
	var last time.Time
	sebtest.Eventually(t, "the last "+service+" has expired", func() (expired bool) {
		for r, err := range c.Records(t.Context(), "riemann", client.ReadOptions{}) {
			must.NoError(t, err)
			var e struct {
				Event string
				Data  struct{ Service string }
			}
			must.NoError(t, json.Unmarshal(r.Value, &e))
			switch {
			case e.Event == service:
				last, expired = time.UnixMilli(r.Timestamp), false
			case e.Event == "expired" && e.Data.Service == service:
				expired = true
			}
		}
		return expired
	})
	list, _ := must.Get2(c.Firings(t.Context(), client.FiringQuery{Trigger: "silent", Limit: 10}))(t)
	if len(list) != 1 || list[0].At.Sub(last) != want {
		t.Errorf("the firings of silent are %+v, want one %s after %s", list, want, last)
	}
}

// collectdMonitor makes every disk critical.
const collectdMonitor = `LoadPlugin uptime
LoadPlugin df
<Plugin df>
  MountPoint "/"
  ValuesAbsolute false
  ValuesPercentage true
</Plugin>
LoadPlugin threshold
<Plugin threshold>
  <Plugin df>
    <Type percent_bytes>
      Instance "used"
      FailureMax 0
    </Type>
  </Plugin>
</Plugin>
LoadPlugin write_riemann
<Plugin write_riemann>
  <Node "seb">
    Host "127.0.0.1"
    Port "%s"
    Protocol TCP
    Batch false
    CheckThresholds true
    Notifications false
  </Node>
</Plugin>
`
