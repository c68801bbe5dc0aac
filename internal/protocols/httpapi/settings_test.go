package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/test/must"
)

// TestSettingsAreThoseOfValidation: PUT /topic accepts the default, the choices and the bounds that
// GET /settings describes.
func TestSettingsAreThoseOfValidation(t *testing.T) {
	s := start(t)
	var all api.Settings
	s.must(200, s.get("/settings"), &all)
	put := func(name, value string) *answered {
		t.Helper()
		body := must.Get(json.Marshal(map[string]any{"settings": map[string]string{name: value}}))(t)
		return s.send("PUT", "/topic?topic-name=t", string(body))
	}
	s.must(201, s.send("PUT", "/topic?topic-name=t", ""), nil)
	names := map[string]bool{}
	for _, d := range all.Settings {
		if names[d.Name] = true; d.Name == state.QueueSetting {
			continue // an object, only when a topic is created
		}
		if d.Meaning == "" || (len(d.Choices) == 0) != (d.Unit != "") {
			t.Errorf("%+v, want a meaning, and choices or a unit", d)
		}
		valid := append([]string{d.Default}, d.Choices...)
		invalid := []string{"nonsense", "-2"}
		for _, bound := range []string{d.DefaultCompacted, d.Min, d.Max} {
			if bound != "" {
				valid = append(valid, bound)
			}
		}
		if d.Max != "" {
			invalid = append(invalid, d.Max+"0")
		}
		if d.Unlimited {
			valid = append(valid, "unlimited")
		} else {
			invalid = append(invalid, "unlimited")
		}
		for _, v := range valid {
			s.must(200, put(d.Name, v), nil)
		}
		for _, v := range invalid {
			if p := put(d.Name, v).problem(t); p.Code != api.BadRequest {
				t.Errorf("%s=%s: %+v, want 400", d.Name, v, p)
			}
		}
		s.must(200, put(d.Name, ""), nil)
	}
	p := put("none", "x").problem(t)
	_, known, _ := strings.Cut(p.Detail, "known settings: ")
	for name := range strings.SplitSeq(known, ", ") {
		if !names[name] {
			t.Errorf("%q is a setting of validation, but GET /settings does not describe it", name)
		}
	}
}
