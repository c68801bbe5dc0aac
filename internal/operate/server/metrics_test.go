package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestMetrics reads GET /metrics as Prometheus does: each family has one HELP and one TYPE before
// its series, its help is in metrics.txt, and metrics.txt has no others. docs/reference/metrics.md
// lists them.
func TestMetrics(t *testing.T) {
	cfg := settings(t, "mem:")
	cfg.Riemann.Listen, cfg.Riemann.WebListen = "127.0.0.1:0", "127.0.0.1:0"
	s := start(t, cfg)
	c := connect(t, s)
	for range 3 {
		must.NoError(t, produce(t, c))
	}
	group := "a \"group\" of \\ è"
	must.NoError(t, c.CommitOffsets(t.Context(), group, client.OffsetCommit{Topic: "t", Offset: 1}))
	must.Get(c.CreateQueue(t.Context(), "mails", client.QueueSpec{}))(t)
	must.Get(c.SendMessages(t.Context(), "mails", client.OutgoingMessage{Value: new("m")}))(t)
	sebtest.Eventually(t, "the merger has started", func() bool { return strings.Contains(scrape(t, s), "seb_merge_failures_total") })
	types, series := families(t, scrape(t, s))
	if got := series[`seb_group_lag_records{group="a \"group\" of \\ è",topic="t"}`]; got != "2" || series["seb_groups_committed"] != "1" {
		t.Errorf("lag of the group: %q, groups %q; want 2 and 1", got, series["seb_groups_committed"])
	}

	for of, want := range map[string]string{
		"seb_queues": "2", `seb_queue_messages{queue="mails",state="ready"}`: "1", `seb_queue_events_total{queue="mails",event="sent"}`: "1",
		`seb_queue_letters{queue="mails.dead"}`: "0", `seb_queue_letters{queue="mails"}`: "",
	} {
		check.Equalf(t, series[of], want, "%s", of)
	}

	file := must.Get(os.Open("metrics.txt"))(t)
	defer file.Close()
	var table strings.Builder
	fmt.Fprint(&table, "| name | type | what it counts or shows |\n|---|---|---|\n")
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, help, _ := strings.Cut(lines.Text(), " ")
		kind := types[name]
		delete(types, name)
		switch {
		case kind == "" && strings.HasPrefix(name, "seb_cache_"), kind == "" && strings.HasPrefix(name, "seb_tls_"):
			kind = "gauge" // of a component that this broker does not have
			if strings.HasSuffix(name, "_total") {
				kind = "counter"
			}
		case kind == "":
			t.Errorf("metrics.txt has %s, the broker does not", name)
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", name, kind, help)
	}
	for name := range types {
		if strings.HasPrefix(name, "seb_") {
			t.Errorf("metrics.txt does not have %s", name)
		}
	}
	sebtest.Generated(t, "../../../docs/reference/metrics.md", "metrics", table.String())
}

// TestStatus: an operator sees the whole in two kilobytes.
func TestStatus(t *testing.T) {
	cfg := settings(t, "mem:")
	cfg.Version = "1.2.3"
	s := start(t, cfg)
	c := connect(t, s)
	for range 3 {
		must.NoError(t, produce(t, c))
	}
	must.NoError(t, c.CommitOffsets(t.Context(), "g", client.OffsetCommit{Topic: "t", Offset: 1}))
	got := must.Get(c.Status(t.Context()))(t)
	if got.Role != "leader" || !got.Ready || got.Epoch != 1 || got.Version != "1.2.3" || got.Store.Name != "mem:" || got.Store.Puts < 3 ||
		got.Store.P99Millis < got.Store.MedianMillis || got.Memory.Limit != int64(cfg.MemoryLimit) || got.Memory.State == 0 || got.Topics != 1 ||
		len(got.Warnings) != 0 || *got.Lag.Group != (api.GroupLag{Group: "g", Topic: "t", Records: 2}) {
		t.Errorf("%+v", got)
	}
	if _, body, err := get(t.Context(), s, "/status"); err != nil || len(body) > 2048 {
		t.Errorf("%d bytes: %s, %v", len(body), body, err)
	}
}

// families returns the types of the families of a scrape and the values of its series. It reports
// what Prometheus would refuse or misunderstand.
func families(t *testing.T, text string) (types, series map[string]string) {
	types, series = map[string]string{}, map[string]string{}
	family := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, help, _ := strings.Cut(rest, " ")
			if types[name] != "" || help == "" && strings.HasPrefix(name, "seb_") {
				t.Errorf("%q: a second HELP, or one without text", line)
			}
			family = name
			continue
		}
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			if name != family || types[name] != "" {
				t.Errorf("%q does not follow the one HELP of its family", line)
			}
			if strings.HasSuffix(name, "_total") != (kind == "counter") && strings.HasPrefix(name, "seb_") {
				t.Errorf("%q: counters, and only they, end in _total", line)
			}
			types[name] = kind
			continue
		}
		name, value := line[:strings.LastIndexByte(line, ' ')], line[strings.LastIndexByte(line, ' ')+1:]
		series[name] = value
		if bare, _, _ := strings.Cut(name, "{"); bare != family && strings.HasPrefix(bare, "seb_") &&
			(types[family] != "histogram" || !strings.HasPrefix(bare, family+"_")) {
			t.Errorf("%q stands below the family %s", line, family)
		}
	}
	return types, series
}

// scrape returns the answer to GET /metrics.
func scrape(t *testing.T, s *server.Server) string {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/metrics", nil))(t)
	req.Header.Set("Authorization", "Bearer "+s.APIKey())
	resp := must.Get(http.DefaultClient.Do(req))(t)
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	text := must.Get(io.ReadAll(resp.Body))(t)
	return string(text)
}
