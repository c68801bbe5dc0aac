package pressure

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// check starts a check of the bucket, which finds no damage. refused: the state may need more
// memory than a check may take.
func (g *grown) check(refused bool) {
	g.t.Helper()
	resp, text, err := g.ask(g.t.Context(), g.url+"/fsck", request{method: http.MethodPost, kind: api.JSON, body: []byte{}, client: &g.http})
	if err == nil && refused && resp.StatusCode == http.StatusRequestEntityTooLarge && strings.Contains(string(text), "raise --memory-limit") {
		g.t.Logf("check refused: %s", text)
		return
	}
	if err != nil || resp.StatusCode != http.StatusAccepted {
		g.t.Fatalf("%v %.500s %v\n%s", resp, text, err, g.Log())
	}
	var out api.Fsck
	sebtest.Eventually(g.t, "the check has ended", func() bool {
		out = api.Fsck{}
		must.NoError(g.t, json.Unmarshal([]byte(g.get(g.url+"/fsck")), &out))
		return out.State != "running"
	})
	if out.State != "done" && !(refused && strings.Contains(out.Error, "raise --memory-limit")) || out.Damages > 0 {
		g.t.Fatalf("%+v\n%s", out, g.Log())
	}
	g.t.Logf("check of %d objects, %s: %s%s", out.Checked.Objects, mib(out.Checked.Bytes), out.State, out.Error)
}

// entity reads all pages about an entity that many triggers know, twice concurrently.
func (g *grown) entity(name string, atLeast int) {
	g.t.Helper()
	for range 2 {
		g.wg.Go(func() {
			known := 0
			for after := ""; ; {
				var page api.Entity
				if err := json.Unmarshal([]byte(g.get(g.url+"/entities/"+name+"?limit=1000"+after)), &page); err != nil {
					g.t.Error(err)
					return
				}
				if known += len(page.Triggers); page.Next == nil {
					break
				}
				after = "&after=" + *page.Next
			}
			if known < atLeast {
				g.t.Errorf("%d triggers know %s, want %d", known, name, atLeast)
			}
		})
	}
	g.wg.Wait()
}

// eventNames reads the names of events several times concurrently.
func (g *grown) eventNames() {
	g.t.Helper()
	for range 4 {
		g.wg.Go(func() {
			var out api.EventNames
			if err := json.Unmarshal([]byte(g.get(g.url+"/events/names")), &out); err != nil || len(out.Names) < 2 || out.Names[0].Name != "made" {
				g.t.Errorf("%+v, %v", out, err)
			}
		})
	}
	g.wg.Wait()
}
