package pressure

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// fullOfProducers: young producers have all places of the root key. A new one is told so by each front
// end, another key has places, and a retry of the first producer is a duplicate.
func (g *grown) fullOfProducers() {
	g.t.Helper()
	send := func(key, producer string) (*http.Response, []byte) {
		req := must.Get(http.NewRequestWithContext(g.t.Context(), http.MethodPost, g.url+"/records?topic-name=topic-000000&partition=0", strings.NewReader("x")))(g.t)
		for k, v := range map[string]string{"Authorization": "Bearer " + key, "Content-Type": api.TextPlain, "Seb-Producer-Id": producer, "Seb-Sequence": "0"} {
			req.Header.Set(k, v)
		}
		resp := must.Get(g.http.Do(req))(g.t)
		defer resp.Body.Close()
		var body bytes.Buffer
		_ = must.Get(body.ReadFrom(resp.Body))(g.t)
		return resp, body.Bytes()
	}
	if resp, body := send(key, "7"); resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" ||
		!bytes.Contains(body, []byte(api.ProducersFull)) || !bytes.Contains(body, []byte("--memory-limit")) {
		g.t.Errorf("a new producer: %s %s", resp.Status, body)
	}
	r := kmsg.NewPtrInitProducerIDRequest()
	r.ProducerID, r.ProducerEpoch = -1, -1
	if resp, err := kafkaCall[*kmsg.InitProducerIDResponse](g, r); err != nil || kerr.ErrorForCode(resp.ErrorCode) != kerr.CoordinatorLoadInProgress {
		g.t.Errorf("a new producer ID: %+v, %v", resp, err)
	}
	_, body, err := g.ask(g.t.Context(), g.url+"/tokens", request{method: http.MethodPost, kind: api.JSON, body: []byte(`{"write":["*"]}`), accept: api.JSON})
	must.NoError(g.t, err)
	var other api.TokenCreated
	must.NoErrorf(g.t, json.Unmarshal(body, &other), "%s", body)
	if resp, body := send(other.Secret, "8"); resp.StatusCode != http.StatusCreated {
		g.t.Errorf("a new producer of another key: %s %s", resp.Status, body)
	}
	must.NoErrorf(g.t, g.append("topic-000000", 100, record.Producer{ID: 2000}), "a retry of the first producers")
	status := g.get(g.url + "/status")
	check.Contains(g.t, status, "idempotent producers are remembered")
	check.Contains(g.t, g.Log(), "new idempotent producers are refused")
	if n := g.metric("seb_producers_refused_total"); n == 0 {
		g.t.Error("no refusal was counted")
	}
}
