package webhook_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestStoredForm: a client cannot give the encrypted form, in whole or in part. The broker shows it
// masked, and reads its rules without the key.
func TestStoredForm(t *testing.T) {
	ring := must.Get(secrets.Parse(secrets.NewKey().Reveal()))(t)
	given := `{"url":"https://x.example","secrets":["whsec_Q0FOQVJZLXdlYmhvb2stc2VjcmV0LTAwMDE="],"headers":{"A":"v"},"frequency_cap":{"count":1,"per":"2d"},"quiet_hours":{"from":"22:00","to":"08:00","zone":"UTC"}}`
	sealed := must.Get(ring.Seal(secrets.Place{Cluster: "c", Trigger: "t"}, []byte(given)))(t)
	var parts map[string]json.RawMessage
	must.NoError(t, json.Unmarshal(sealed, &parts))
	for name, text := range map[string]string{
		"all": string(sealed), "a secret": `{"secrets":` + string(parts["secrets"]) + `}`, "a header": `{"headers":` + string(parts["headers"]) + `}`,
		"the data key": `{"sealed_by":` + string(parts[secrets.Member]) + `}`,
	} {
		if _, err := webhook.ParseDelivery([]byte(text)); err == nil || !strings.Contains(err.Error(), "encrypted form") || strings.Contains(err.Error(), "sebsealed1:") {
			t.Errorf("%s: %v", name, err)
		}
	}
	d := must.Get(webhook.ParseStored(sealed))(t)
	shown, err := json.Marshal(d)
	if want := `"headers":{"A":"***"},"secrets":["whsec_***"]`; err != nil || !strings.Contains(string(shown), want) || strings.Contains(string(shown), "seb") {
		t.Errorf("shown as %s, %v", shown, err)
	}
	check.Equalf(t, webhook.CapSpan(sealed), 48*time.Hour, "cap of")
	if webhook.QuietOf(sealed) == (webhook.QuietHours{}) {
		t.Error("no quiet hours")
	}
}
