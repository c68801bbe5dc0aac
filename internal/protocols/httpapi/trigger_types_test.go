package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/test/must"
)

func TestEngineErrorsHaveCodes(t *testing.T) {
	for _, c := range []struct {
		err   error
		code  api.Code
		field string
	}{
		{fmt.Errorf("%w: fire: what\nstatus: what", rules.ErrInvalid), api.BadRequest, "fire"},
		{fmt.Errorf("%w: something else", rules.ErrInvalid), api.BadRequest, ""},
		{fmt.Errorf("%w: %w", rules.ErrInvalid, rule.ErrInitiallyTrue), api.BadRequest, "expr"},
		{rules.ErrUnknownTrigger, api.UnknownTrigger, ""},
		{fmt.Errorf("%w: 1", rules.ErrUnknownFiring), api.UnknownFiring, ""},
		{rules.ErrNotLeader, api.NotLeader, ""},
		{fmt.Errorf("%w: disk full", rules.ErrUnavailable), api.TriggersUnavailable, ""},
		{rules.ErrClosed, api.ShuttingDown, ""},
	} {
		var p *api.Problem
		if !errors.As(triggerFault(c.err), &p) || p.Code != c.code || p.Field != c.field || p.Detail == "" || bytes.ContainsRune([]byte(p.Detail), '\n') {
			t.Errorf("error %v became %+v", c.err, p)
		}
	}
	if err := triggerFault(io.EOF); err != io.EOF {
		t.Error(err)
	}
	if triggerFault(nil) != nil {
		t.Error("a nil error became a fault")
	}
}

// FuzzTriggerSpec: a body is refused with the name of a member, or gives a trigger. Sending its
// answer again gives the same trigger, and answers do not contain its secrets.
func FuzzTriggerSpec(f *testing.F) {
	for _, body := range []string{
		`{"expr":"created THEN (NOT used WITHIN 7 days)","fire":"edge","cooldown":"7d","backfill":"none","carry_fired":false,"on_retract":"notify","status":"paused"}`,
		`{"expr":{"then":[{"event":"A"},{"within":{"not":{"event":"B"}},"for":"7d"}]},"topic":"t"}`,
		`{"expr":"A","deliver":{"url":"https://example.com/hook","secrets":["whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"],"headers":{"Authorization":"swordfish"}}}`,
		`{"expr":"A","deliver":{"url":"https://example.com","secrets":["whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"],"template":"{{.Witness.A.Time}}","quiet_hours":{"from":"22:00","to":"08:00","zone":"UTC"}}}`,
		`{"expr":"A","deliver":{"topic":"mails"},"extra":1}`, `{"expr":1}`, `[]`, `{"expr":"A"}{}`, `null`,
	} {
		f.Add([]byte(body))
	}
	o := NewTriggers(TriggersOptions{EventsTopic: "events"})
	read := func(body []byte) (rule.Definition, error) {
		var s api.TriggerSpec
		if err := httpconn.Decode(body, &s); err != nil {
			return rule.Definition{}, err
		}
		d, faults := o.definition(&s)
		return d, errors.Join(faults...)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := read(body)
		if err != nil {
			var p *api.Problem
			if !errors.As(err, &p) || p.Code != api.BadRequest || p.Field == "" {
				t.Fatalf("%v", err)
			}
			return
		}
		value, err := d.Encode()
		stored, fault := rule.ParseStored(value)
		if err != nil || fault != nil {
			t.Fatal(err, fault)
		}
		shownAs := must.Get(shown(&rules.Head{}, stored))(t)
		answer := must.Get(json.Marshal(shownAs))(t)
		if d.Deliver != nil {
			w, err := webhook.ParseDelivery(d.Deliver)
			if err != nil || shownAs.Deliver == nil {
				t.Fatalf("%s: %v", d.Deliver, err)
			}
			for _, secret := range w.Secrets {
				if bytes.Contains(shownAs.Deliver, []byte(secret.Reveal()[len("whsec_"):])) && !bytes.Contains([]byte(w.URL+w.Template), []byte(secret.Reveal()[len("whsec_"):])) {
					t.Fatalf("answer contains a secret: %s", answer)
				}
			}
		}
		var again bytes.Buffer
		enc := json.NewEncoder(&again)
		enc.SetEscapeHTML(false) // a delivery is stored unchanged
		err = enc.Encode(api.TriggerSpec{
			Expr: shownAs.Expr, Topic: shownAs.Topic, Fire: shownAs.Fire, Cooldown: shownAs.Cooldown, Backfill: shownAs.Backfill,
			CarryFired: &shownAs.CarryFired, OnRetract: shownAs.OnRetract, Status: shownAs.Status, Deliver: d.Deliver,
		})
		must.NoError(t, err)
		back, err := read(again.Bytes())
		must.NoErrorf(t, err, "%s", &again)
		if back.Text = d.Text; !back.SameResults(&d) || back.Status != d.Status || !reflect.DeepEqual(back.Deliver, d.Deliver) {
			t.Fatalf("%s\nis read back as\n%+v\nof\n%+v", &again, back, d)
		}
	})
}
