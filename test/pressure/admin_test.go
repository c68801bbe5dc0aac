package pressure

import (
	"encoding/json"

	"github.com/sebbroker/seb/api"
)

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
