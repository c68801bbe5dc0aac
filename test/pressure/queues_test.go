package pressure

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestQueuesGrow: a queue has 100,000 delayed messages, 100,000 dedup IDs and 5,000 leases, and 400 workers
// wait for messages of another one. The broker stays within its limit, also after a restart, and continues.
func TestQueuesGrow(t *testing.T) {
	const messages, each, leases, workers = 100_000, 1000, 5000, 400
	beside(t)
	b := start(t, "--batch-wait-time", "5ms")
	for _, name := range []string{"q", "empty"} {
		b.queue(http.MethodPut, "/queues/"+name, `{"settings":{"dedup-window":"1h","visibility":"1h"}}`, nil)
	}
	for n := 0; n < messages; n += each {
		var body strings.Builder
		for i := n; i < n+each; i++ {
			fmt.Fprintf(&body, `{"value":"m%d","delay":"%dm","dedup":"id-%d"}`+"\n", i, 60+i*7919%messages, i)
		}
		b.sendTo("q", body.String())
	}
	b.sendTo("q", strings.Repeat(`{"value":"x"}`+"\n", leases))
	receipt := ""
	for n := 0; n < leases; {
		var out api.QueueMessages
		b.queue(http.MethodPost, "/queues/q/lease", `{"max":500,"wait":"10s"}`, &out)
		if n += len(out.Messages); len(out.Messages) == 0 {
			t.Fatalf("%d messages are leased", n)
		}
		receipt = out.Messages[0].Receipt
	}
	for range workers {
		conn := must.Get(net.Dial("tcp", b.addr))(t)
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "POST /queues/empty/lease HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"wait\":\"1m\"}", key)
	}
	var q api.Queue
	b.queue(http.MethodGet, "/queues/q", "", &q)
	check.Equalf(t, [3]int64{q.Delayed, q.Leased, q.Ready}, [3]int64{messages, leases, 0}, "delayed, leased, ready")
	b.sendTo("q", `{"value":"again","dedup":"id-5"}`)
	b.queue(http.MethodPost, "/queues/q/settle", fmt.Sprintf(`{"messages":[{"receipt":%q,"do":"done"}]}`, receipt), nil)
	b.restart()
	sebtest.Eventually(t, "the broker leads", func() bool {
		resp, _, err := b.ask(t.Context(), b.url+"/readyz", request{})
		return err == nil && resp.StatusCode == http.StatusOK
	})
	b.queue(http.MethodGet, "/queues/q", "", &q)
	check.Equalf(t, [3]int64{q.Delayed, q.Leased, q.Ready}, [3]int64{messages, leases - 1, 0}, "delayed, leased, ready after a restart")
	b.alive()
	b.within(limit)
}

// queue sends a request about a queue, which must succeed.
func (b *broker) queue(method, path, body string, out any) {
	b.t.Helper()
	resp, answer, err := b.ask(b.t.Context(), b.url+path, request{method: method, kind: api.JSON, body: []byte(body)})
	must.NoErrorf(b.t, err, "%s %s", method, path)
	if resp.StatusCode >= 300 {
		b.t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, answer)
	}
	if out != nil {
		must.NoError(b.t, json.Unmarshal(answer, out))
	}
}

// sendTo sends messages, of which each is stored or is a duplicate.
func (b *broker) sendTo(queue, lines string) {
	b.t.Helper()
	resp, answer, err := b.ask(b.t.Context(), b.url+"/queues/"+queue+"/messages", request{method: http.MethodPost, kind: api.NDJSON, body: []byte(lines)})
	must.NoError(b.t, err)
	if resp.StatusCode >= 300 || strings.Contains(string(answer), `"code"`) {
		b.t.Fatalf("send: %d %.300s", resp.StatusCode, answer)
	}
}
