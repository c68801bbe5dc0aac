package server_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

const (
	rulesFile     = "../../../packaging/prometheus/seb.rules.yml"
	ruleTestsFile = "../../../packaging/prometheus/seb.rules.test.yml"
	dashboardFile = "../../../packaging/grafana/seb.json"
	alarmsGuide   = "../../../docs/guide/alarms.md"
	growGuide     = "../../../docs/guide/grow.md"
	runbook       = "https://github.com/sebbroker/seb/blob/main/docs/guide/alarms.md#"
)

// alertRule is an alert of rulesFile.
type alertRule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// TestAlerts: each alert is complete, has a section in the guide and a promtool test, and there are
// no further sections and tests.
func TestAlerts(t *testing.T) {
	var tests struct {
		Tests []struct {
			Name            string
			PromqlExprTests []struct{ Expr string } `yaml:"promql_expr_test"`
		}
	}
	decodeYAML(t, ruleTestsFile, &tests)
	tested := map[string]bool{}
	for _, c := range tests.Tests {
		name, _, _ := strings.Cut(c.Name, " ")
		for _, e := range c.PromqlExprTests {
			if !strings.Contains(e.Expr, `{alertname="`+name+`", alertstate="firing"}`) {
				t.Errorf("test %q has the expression %q of another alert", c.Name, e.Expr)
			}
			tested[name] = true
		}
	}
	sections := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(readFile(t, alarmsGuide), -1) {
		sections[m[1]] = true
	}
	for _, r := range alertRules(t) {
		if r.For == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" ||
			!slices.Contains([]string{"critical", "warning"}, r.Labels["severity"]) {
			t.Errorf("%s lacks for, severity, summary or description: %+v", r.Alert, r)
		}
		check.Equalf(t, r.Annotations["runbook_url"], runbook+strings.ToLower(r.Alert), "%s has the runbook", r.Alert)
		if !tested[r.Alert] || !sections[r.Alert] {
			t.Errorf("%s: tested %v, has a section in the guide %v", r.Alert, tested[r.Alert], sections[r.Alert])
		}
		delete(tested, r.Alert)
		delete(sections, r.Alert)
	}
	if len(tested)+len(sections) > 0 {
		t.Errorf("tests %v and sections %v without an alert", tested, sections)
	}
}

// TestAlertMetrics: alerts, dashboard and the expressions of a guide use only metrics of metrics.txt, which
// TestMetrics compares with a broker, and only values of labels that a broker has.
func TestAlertMetrics(t *testing.T) {
	s := start(t, settings(t, "mem:"))
	must.Get(connect(t, s).CreateQueue(t.Context(), "mails", client.QueueSpec{}))(t)
	types, series := families(t, scrape(t, s))
	metric := regexp.MustCompile(`\b(seb_\w+)(?:\{([^}]*)\})?`)
	matcher := regexp.MustCompile(`(\w+)=~?"([\w|]+)"`)
	part := regexp.MustCompile(`_(bucket|sum|count)$`)
	for _, expr := range alertExpressions(t) {
		found := metric.FindAllStringSubmatch(expr, -1)
		if len(found) == 0 && !strings.Contains(expr, "up{") {
			t.Errorf("%q uses no metric", expr)
		}
		for _, m := range found {
			name := m[1]
			if base := part.ReplaceAllString(name, ""); types[base] == "histogram" {
				name = base
			}
			check.Containsf(t, "\n"+readFile(t, "metrics.txt"), "\n"+name+" ", "%q uses %s, which is not in metrics.txt", expr, name)
			for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
				for value := range strings.SplitSeq(l[2], "|") {
					if !hasLabel(series, name, l[1], value) {
						t.Errorf("%q: no broker has %s{%s=%q}", expr, name, l[1], value)
					}
				}
			}
		}
	}
}

// hasLabel reports whether a broker has series of a metric with a label. The codes of HTTP requests
// are those of the API: their series begin with the first answer.
func hasLabel(series map[string]string, metric, label, value string) bool {
	if _, ok := api.Statuses[api.Code(value)]; ok && metric == "seb_http_requests_total" && label == "code" {
		return true
	}
	for name := range series {
		if strings.HasPrefix(name, metric+"{") && strings.Contains(name, label+`="`+value+`"`) {
			return true
		}
	}
	return false
}

func alertRules(t *testing.T) []alertRule {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []alertRule }
	}
	decodeYAML(t, rulesFile, &file)
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) == 0 {
		t.Fatalf("%s: want one group with rules", rulesFile)
	}
	return file.Groups[0].Rules
}

// alertExpressions returns the expressions of the alerts, those of the dashboard's panels and variables, and
// those of the guide, of which TestExpressionsOfTheGuide evaluates all.
func alertExpressions(t *testing.T) (list []string) {
	t.Helper()
	for _, r := range alertRules(t) {
		list = append(list, r.Expr)
	}
	var d struct {
		Templating struct {
			List []struct{ Type, Query string }
		}
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	must.NoError(t, json.Unmarshal([]byte(readFile(t, dashboardFile)), &d))
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			list = append(list, v.Query)
		}
	}
	for _, p := range d.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %q of the dashboard has no expression", p.Title)
		}
		for _, target := range p.Targets {
			list = append(list, target.Expr)
		}
	}
	rows := regexp.MustCompile("(?m)^\\|[^|]*\\| `(.*seb_.*)` \\|").FindAllStringSubmatch(readFile(t, growGuide), -1)
	if len(rows) == 0 {
		t.Errorf("%s has no expression", growGuide)
	}
	for _, m := range rows {
		list = append(list, strings.ReplaceAll(m[1], `\|`, "|"))
	}
	return list
}

func decodeYAML(t *testing.T, file string, to any) {
	t.Helper()
	must.NoErrorf(t, yaml.Unmarshal([]byte(readFile(t, file)), to), "%s", file)
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	return string(text)
}
