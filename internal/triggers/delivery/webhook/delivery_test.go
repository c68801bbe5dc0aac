package webhook_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestDelivery(t *testing.T) {
	d := must.Get(webhook.ParseDelivery([]byte(`{
		"url": "https://example.com/hook", "secrets": ["` + secret.Reveal() + `"], "headers": {"Authorization": "swordfish"},
		"template": "{{json .Entity}}", "content_type": "application/json",
		"quiet_hours": {"from": "22:00", "to": "07:00", "zone": "Europe/Berlin"},
		"frequency_cap": {"count": 2, "per": "7d"},
		"retries": ["5s", "1h30m", "1d"]
	}`)))(t)
	plan := must.Get(d.Plan(webhook.Policy{}, []string{"signup"}))(t)
	night := noon.Add(9 * time.Hour) // 23:00 in Berlin
	if plan.Rules.Cap != (webhook.Cap{Count: 2, Per: 7 * 24 * time.Hour}) || !plan.Rules.Next(night, nil).Equal(night.Add(8*time.Hour)) {
		t.Errorf("rules %+v", plan.Rules)
	}
	check.EqualSlicesf(t, plan.Backoff.Delays, []time.Duration{0, 5 * time.Second, 90 * time.Minute, 24 * time.Hour}, "delays")
	if out, err := plan.Target.Body(message("t")); err != nil || string(out) != `"u7"` {
		t.Errorf("body %s, %v", out, err)
	}
	shown, err := json.Marshal(d)
	if err != nil || strings.Contains(string(shown), "swordfish") || strings.Contains(string(shown), secret.Reveal()[6:]) {
		t.Errorf("shown as %s, %v", shown, err)
	}
	again, err := webhook.ParseDelivery(shown)
	if err == nil {
		_, err = again.Plan(webhook.Policy{}, nil)
	}
	for _, want := range []string{"the value of Authorization is masked", "secrets: number 1 is masked"} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "got 0") {
			t.Errorf("masked values: %v, want %s", err, want)
		}
	}
}

func TestDeliveryDefaults(t *testing.T) {
	for text, attempts := range map[string]int{"": 10, `, "retries": null`: 10, `, "retries": []`: 1} {
		d := must.Get(webhook.ParseDelivery([]byte(`{"url": "https://example.com", "secrets": ["` + secret.Reveal() + `"]` + text + `}`)))(t)
		plan, err := d.Plan(webhook.Policy{}, nil)
		if err != nil || len(plan.Backoff.Delays) != attempts || plan.Rules != (webhook.Rules{}) {
			t.Errorf("%s: %+v, %v", text, plan, err)
		}
		shown := string(must.Get(json.Marshal(d))(t))
		if none := attempts == 1; strings.Contains(shown, `"retries":[]`) != none || strings.Contains(shown, "retries") != none {
			t.Errorf("%s is shown as %s", text, shown)
		}
	}
}

func TestDeliveryConcurrency(t *testing.T) {
	for text, want := range map[string]int{`null`: 0, `1`: 1, `1000`: 1000, `0`: -1, `1001`: -1, `-4`: -1} {
		d := must.Get(webhook.ParseDelivery([]byte(`{"topic": "mails", "concurrency": ` + text + `}`)))(t)
		plan, err := d.Plan(webhook.Policy{}, nil)
		switch {
		case want < 0:
			if err == nil || err.Error() != "concurrency: "+text+", want 1 to 1000" {
				t.Errorf("%s: %v", text, err)
			}
		case err != nil || plan.Concurrency != want:
			t.Errorf("%s: %+v, %v", text, plan, err)
		}
		if shown := string(must.Get(json.Marshal(d))(t)); strings.Contains(shown, "concurrency") != (text != "null") {
			t.Errorf("%s is shown as %s", text, shown)
		}
	}
}

// TestDeliveryToTopic: a topic replaces the URL, with the same rules.
func TestDeliveryToTopic(t *testing.T) {
	d := must.Get(webhook.ParseDelivery([]byte(`{"topic": "mails", "frequency_cap": {"count": 2, "per": "7d"}}`)))(t)
	plan, err := d.Plan(webhook.Policy{}, nil)
	if err != nil || plan.Topic != "mails" || plan.Target != nil || plan.Rules.Cap.Count != 2 {
		t.Errorf("%+v, %v", plan, err)
	}
	if shown, err := json.Marshal(d); err != nil || string(shown) != `{"topic":"mails","frequency_cap":{"count":2,"per":"7d"}}` {
		t.Errorf("shown as %s, %v", shown, err)
	}
}

func TestDeliveryFaults(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{``, "delivery: empty"},
		{`{"url": 5}`, "delivery: url: want a string, given a JSON number"},
		{`{"secrets": [{"swordfish": 1}]}`, "delivery: secrets[0]: want a string, given a JSON object"},
		{`{"uri": "x"}`, "delivery: uri: unknown member"},
		{`{} {}`, "more than one JSON value"},
		{`{"secrets": ["swordfish"]}`, "secrets: number 1 does not begin with whsec_"},
		{`{"url": "https://example.com", "secrets": ["", "` + secret.Reveal() + `"]}`, "secrets: number 1 is empty"},
		{`{"url": "ftp://a", "secrets": ["` + secret.Reveal() + `", "swordfish"], "retries": ["x"]}`, "url: want https:// or http://\nsecrets: number 2 does not begin with whsec_\nretries: number 1"},
		{`["swordfish"]`, "delivery: want an object"},
		{`"swordfish"`, "delivery: want an object"},
		{`{"topic": "t", "secrets": ["swordfish"]}`, "topic: excludes url, headers, secrets"},
		{`{"topic": "t", "url": "https://example.com"}`, "topic: excludes url, headers, secrets"},
		{`{"topic": "a b"}`, "topic: "},
		{`{"topic": "firings"}`, "topic: firings is reserved"},
		{strings.Repeat(" ", webhook.DeliveryBytesMax+1), "limit 262144"},
		{`{"quiet_hours": {"from": "x"}}`, "quiet hours: from: invalid time of day \"x\""},
		{`{"quiet_hours": {}}`, "quiet hours: zone: invalid time zone \"\""},
		{`{"frequency_cap": {"count": 0, "per": "0s"}}`, "frequency cap: count and per are 0"},
		{`{"frequency_cap": {"count": 1, "per": "forever"}}`, `frequency cap: per: invalid duration "forever"`},
		{`{"frequency_cap": {"count": 1, "per": "367d"}}`, "frequency cap: per is 8808h0m0s"},
		{`{"frequency_cap": {"count": 1, "per": "99999999999d"}}`, "invalid duration"},
		{`{"retries": ["-5s"]}`, `retries: number 1: invalid duration "-5s"`},
		{`{"retries": ["8d"]}`, `retries: number 1: "8d", limit 7d`},
		{`{"retries": [` + strings.Repeat(`"1s",`, 70) + `"1s"]}`, "retries: 71 delays, limit 63"},
	} {
		d, err := webhook.ParseDelivery([]byte(tt.text))
		if err == nil {
			_, err = d.Plan(webhook.Policy{}, nil)
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "swordfish") {
			t.Errorf("%.80s: %v, want %s", tt.text, err, tt.want)
		}
	}
}

func FuzzParseDelivery(f *testing.F) {
	f.Add([]byte(`{"url": "https://example.com/hook", "secrets": ["` + secret.Reveal() + `"], "headers": {"A": "b"}, "retries": ["1d"]}`))
	f.Add([]byte(`{"quiet_hours": {"from": "22:00", "to": "07:00", "zone": "UTC"}, "frequency_cap": {"count": 2, "per": "7d"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := webhook.ParseDelivery(text)
		if err != nil {
			return
		}
		plan, err := d.Plan(webhook.Policy{}, nil)
		if (plan == nil) == (err == nil) {
			t.Fatalf("%+v, %v", plan, err)
		}
		if plan != nil && (plan.Backoff.Validate() != nil || plan.Rules.Cap.Validate() != nil || plan.Rules.Next(noon, nil).Before(noon)) {
			t.Fatalf("%+v", plan)
		}
	})
}

func TestCapSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{
		``: 0, `null`: 0, `{"topic": "x"}`: 0, `{`: webhook.CapPerMax,
		`{"topic": "x", "frequency_cap": {"count": 1, "per": "7d"}}`:    7 * 24 * time.Hour,
		`{"topic": "x", "frequency_cap": {"count": 1, "per": "never"}}`: webhook.CapPerMax,
	} {
		check.Equalf(t, webhook.CapSpan([]byte(text)), want, "%s", text)
	}
}
