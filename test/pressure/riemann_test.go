package pressure

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

const riemannEvents = 20_000

// TestRiemannIndexGrows: events of many hosts, while clients query all of them, and subscribe without
// reading. The broker stays within its limit, with the index and while it rebuilds it.
func TestRiemannIndexGrows(t *testing.T) {
	beside(t)
	web := freeAddress(t)
	g := &grown{kafkaVictim: &kafkaVictim{broker: start(t, "--batch-wait-time", "5ms", "--kafka-listen", "127.0.0.1:0", "--riemann-web-listen", web)}}
	g.connect()
	defer func() { g.client.Close() }()
	must.NoError(t, g.put("/topic?topic-name=riemann", `{"settings":{"timestamp-type":"append","compression":"zstd"}}`))
	var mute []io.Closer
	subscribe := func() (admitted int) {
		for range 40 { // more than the broker admits: it refuses some, and closes the connections of others
			resp, err := http.Get("http://" + web + "/index?query=" + url.QueryEscape(`state = "new"`))
			if err != nil {
				continue
			}
			mute = append(mute, resp.Body)
			if resp.StatusCode == http.StatusOK {
				admitted++
			}
		}
		return admitted
	}
	defer func() {
		for _, c := range mute {
			c.Close()
		}
	}()
	if n := subscribe(); n == 0 || n == 40 {
		t.Fatalf("%d of 40 subscriptions are admitted", n)
	}
	text := strings.Repeat("text that is not stored with each event ", 5)
	for n := 0; n < riemannEvents; n += together {
		var recs []record.Record
		for i := range together {
			host := fmt.Sprintf("host-%d", n+i)
			value := fmt.Sprintf(`{"event":"disk","entity_id":%q,"data":{"state":"new","metric":%d,"ttl":86400,"description":%q}}`, host, n+i, text)
			recs = append(recs, record.Record{Key: []byte(host), Value: []byte(value)})
		}
		g.batch("riemann", recs)
		if n%(4*together) == 0 {
			g.queryRiemann(n + together)
		}
	}
	g.restart()
	check.Equalf(t, subscribe(), 0, "subscriptions to more events than fit into an answer are admitted")
	g.queryRiemann(riemannEvents)
	files, err := filepath.Glob(filepath.Join(filepath.Dir(t.TempDir()), "*", "view", "riemann.db*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		must.NoError(t, os.Remove(f))
	}
	g.restart()
	g.queryRiemann(riemannEvents)
	g.alive()
	g.within(limit)
	t.Logf("%.0f events, %s in the index", g.metric("seb_riemann_index_entries"), mib(int64(g.metric("seb_riemann_index_bytes"))))
}

// queryRiemann queries the index several times concurrently: all events, which are too many, and one
// of them.
func (g *grown) queryRiemann(events int) {
	g.t.Helper()
	last := fmt.Sprintf(`host = "host-%d" and service = "disk"`, events-1)
	sebtest.Eventually(g.t, "the index has the last event", func() bool {
		resp, body, err := g.ask(g.t.Context(), g.url+"/riemann/index?timeout=1m&query="+url.QueryEscape(last), request{client: &g.http})
		return err == nil && resp.StatusCode == http.StatusOK && strings.Contains(string(body), fmt.Sprintf(`"metric":%d,`, events-1))
	})
	for range 4 {
		g.wg.Go(func() {
			resp, body, err := g.ask(g.t.Context(), g.url+"/riemann/index?query=true", request{client: &g.http})
			switch {
			case err != nil:
				g.t.Error(err)
			case resp.StatusCode == http.StatusTooManyRequests: // memory
			case resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(body), fmt.Sprintf("%d events match", events)):
				g.t.Errorf("%d %.300s", resp.StatusCode, body)
			}
		})
	}
	g.wg.Wait()
}
