package template_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/triggers/delivery/template"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/webhook"
)

func TestDefaultBody(t *testing.T) {
	m := sample()
	m.Witness = []webhook.Event{
		{Event: "signup", Time: noon.In(time.FixedZone("x", 3600)), Offset: 41, Data: json.RawMessage(`{ "name": "<Ada>", "n": 12345678901234567890 }`)},
		{Event: "login", Time: noon.Add(time.Second), Offset: 42},
	}
	for _, tt := range []struct {
		state    template.State
		id, want string
	}{
		{template.Fired, "f1", "trigger.fired"},
		{template.Retracted, "f1-retracted", "trigger.retracted"},
	} {
		m.State = tt.state
		got, err := template.Default(m)
		want := `{"type":"` + tt.want + `","timestamp":"2026-05-01T12:00:00.123Z","version":1,"id":"f1","attempt":2,` +
			`"data":{"trigger":"welcome","trigger_version":3,"entity":"u7","witness":[` +
			`{"event":"signup","time":"2026-05-01T12:00:00.123Z","offset":41,"data":{"name":"<Ada>","n":12345678901234567890}},` +
			`{"event":"login","time":"2026-05-01T12:00:01.123Z","offset":42}]}}`
		if err != nil || string(got) != want {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
		check.Equalf(t, m.MessageID(), tt.id, "%s has the ID", tt.state)
		var f webhook.Firing
		if err := json.Unmarshal(got, &f); err != nil || f.Data.Witness[1].Offset != 42 || f.Version != webhook.Version {
			t.Errorf("read back: %+v, %v", f, err)
		}
	}
}

func TestDefaultBodyWithoutEvents(t *testing.T) {
	m := sample()
	m.Witness = nil
	if got, err := template.Default(m); err != nil || !strings.HasSuffix(string(got), `"witness":[]}}`) {
		t.Errorf("%s, %v", got, err)
	}
}

func TestDefaultBodyRefuses(t *testing.T) {
	for name, change := range map[string]func(*template.Message){
		"no state":           func(m *template.Message) { m.State = "" },
		"data without sense": func(m *template.Message) { m.Witness = []webhook.Event{{Data: json.RawMessage(`{"a":`)}} },
		"too much data": func(m *template.Message) {
			m.Witness = []webhook.Event{{Data: json.RawMessage(`"` + strings.Repeat("x", template.BytesMax) + `"`)}}
		},
		"just too large": func(m *template.Message) {
			m.Witness = []webhook.Event{{Data: json.RawMessage(`"` + strings.Repeat("x", template.BytesMax-100) + `"`)}}
		},
	} {
		m := sample()
		change(m)
		check.Error(t, check.Err(template.Default(m)), "%s: accepted", name)
	}
}
