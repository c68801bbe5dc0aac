package webhook_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sebbroker/seb/internal/triggers/delivery/template"
	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	signed "github.com/sebbroker/seb/webhook"
)

// TestDocumentedExamples: the code matches the examples and tables of docs/guide/webhooks.md.
func TestDocumentedExamples(t *testing.T) {
	text := must.Get(os.ReadFile("../../../../docs/guide/webhooks.md"))(t)
	doc := string(text)
	blocks := regexp.MustCompile("(?s)```[a-z]*\n(.*?)```").FindAllStringSubmatch(doc, -1)
	must.Equalf(t, len(blocks), 6, "code blocks, want request, receiver, delivery, template and two triggers")

	_, request, _ := strings.Cut(blocks[0][1], "\n\n")
	var f signed.Firing
	must.NoError(t, json.Unmarshal([]byte(request), &f))
	m := &template.Message{
		ID: f.ID, Trigger: f.Data.Trigger, Version: f.Data.TriggerVersion, Entity: f.Data.Entity, At: f.Timestamp, State: template.Fired,
		Attempt: f.Attempt, Witness: f.Data.Witness,
	}
	if got, err := template.Default(m); err != nil || string(got) != regexp.MustCompile(`\n *`).ReplaceAllString(request, "") {
		t.Errorf("the body is %s, %v\nwant %s", got, err, request)
	}

	d := must.Get(webhook.ParseDelivery([]byte(strings.Replace(blocks[2][1], "whsec_…", secret.Reveal(), 1))))(t)
	d.Headers["Authorization"] = "x"
	if _, err := d.Plan(webhook.Policy{}, []string{"signup"}); err != nil {
		t.Error(err)
	}

	d.Template = blocks[3][1]
	plan := must.Get(d.Plan(webhook.Policy{}, []string{"signup"}))(t)
	want := "Hello Ada,\nyou signed up on 24 April and have not made a project yet.\nYour plan includes a call with us.\n"
	if got, err := plan.Target.Body(m); err != nil || string(got) != want {
		t.Errorf("the output of the template is %q, %v", got, err)
	}
	checkTables(t, doc)
	for _, b := range blocks[4:] {
		checkService(t, b[1])
	}
}

// checkService accepts a trigger file for a mail or chat service.
func checkService(t *testing.T, text string) {
	var trigger struct {
		Expr    string
		Deliver map[string]any
	}
	must.NoError(t, yaml.Unmarshal([]byte(strings.Replace(text, "${SECRET}", secret.Reveal(), 1)), &trigger))
	deliver := must.Get(json.Marshal(trigger.Deliver))(t)
	d, err := webhook.ParseDelivery([]byte(os.Expand(string(deliver), func(string) string { return "x" })))
	if err == nil {
		_, err = d.Plan(webhook.Policy{}, []string{trigger.Expr})
	}
	check.NoErrorf(t, err, "the trigger of %s", trigger.Expr)
}

func checkTables(t *testing.T, doc string) {
	for _, ask := range []struct{ template, list string }{
		{"{{none}}", "functions: "},
		{"{{.none}}", "fields: "},
		{"{{.Witness.signup.none}}", "fields: "},
	} {
		err := template.Check(ask.template, "text/plain", nil, nil)
		_, names, ok := strings.Cut(err.Error(), ask.list)
		if !ok {
			t.Fatal(err)
		}
		for name := range strings.SplitSeq(names, ", ") {
			if !strings.Contains(doc, "`"+name+"`") && !strings.Contains(doc, "`"+name+" ") && !strings.Contains(doc, "`"+name+".") {
				t.Errorf("%s is missing in the document", name)
			}
		}
	}
	sum := time.Duration(0)
	for i, delay := range webhook.DefaultBackoff().Delays {
		sum += delay
		cells := regexp.MustCompile(fmt.Sprintf(`(?m)^\| %d \| (.*) \| (.*) \|$`, i+1)).FindStringSubmatch(doc)
		if cells == nil {
			t.Errorf("missing row for attempt %d", i+1)
			continue
		}
		after, err := time.ParseDuration(strings.NewReplacer(" ", "", "min", "m").Replace(cells[2]))
		if cells[2] == "0" {
			after, err = 0, nil
		}
		if err != nil || (sum-after).Abs() > 5*time.Second {
			t.Errorf("attempt %d is after %v, the document says %s", i+1, sum, cells[2])
		}
	}
}
