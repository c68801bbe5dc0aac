package answers

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// short has a call of each kind.
const short = `
PUT /topic?topic-name=orders
POST /records?topic-name=orders
  Content-Type: application/json
  > [{"key":"a","value":"1"},{"key":"b","value":"2"}]
GET /records?topic-name=orders&offset=0&timeout=0s
  as root,none
GET /status
  shape
RAW
  > GET / HTTP/1.0
  > 
  > 
POST /tokens
  > {"id":"reader","read":["orders"]}
  save reader "token": "([^"]+)"
GET /tokens/reader
  as reader
KAFKA Metadata 0 13
  as reader
KAFKA ApiVersions 99
PUT /triggers/t
  > {"expr":"a","deliver":{"url":"${hook}/x","secrets":["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}}
POST /event
  > {"event":"a","entity_id":"u"}
HOOK 1
$ seb topic describe orders
$ seb topic list --json | grep partitions | head -1
STOP main
$ seb inspect none
`

func TestTwoRunsOfOneProgramHaveNoDifference(t *testing.T) {
	t.Parallel()
	path := testenv.Program(t)
	first := must.Get(Run(t.Context(), path, short))(t)
	second := must.Get(Run(t.Context(), path, short))(t)
	var file, out bytes.Buffer
	must.NoErrorf(t, Write(&file, first), "write the recording")
	first = must.Get(Read(&file))(t)
	n := must.Get(Compare(t.Context(), &out, first, second))(t)
	check.Equalf(t, n, 0, "two runs differ:\n%s", &out)
	for _, a := range second {
		if strings.Contains(a.Text, "NEVER") || strings.Contains(a.Text, "NOT FOUND") {
			t.Errorf("%s: %s", a.Call, a.Text)
		}
	}
}

// TestDifferenceIsReported runs a program whose broker differs in one flag, which a client of each
// kind sees, and changes recordings.
func TestDifferenceIsReported(t *testing.T) {
	t.Parallel()
	path := testenv.Program(t)
	list := "POST /records?topic-name=orders\n  Content-Type: text/plain\n  > a\nGET /topic?topic-name=orders\nKAFKA Metadata 13\n$ seb topic describe orders\nGET /healthz\n"
	other := filepath.Join(t.TempDir(), "seb")
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = serve ] && exec %[1]s \"$@\" --default-partitions 2\nexec %[1]s \"$@\"\n", path)
	must.NoErrorf(t, os.WriteFile(other, []byte(script), 0o700), "write a program")
	base := must.Get(Run(t.Context(), path, list))(t)
	head := must.Get(Run(t.Context(), other, list))(t)
	var out bytes.Buffer
	n := must.Get(Compare(t.Context(), &out, base, head))(t)
	check.Equalf(t, n, 3, "differences of --default-partitions 2:\n%s", &out)
	for _, want := range []string{"+   \"partition\": 1,", "+.Topics[0].Partitions[1].Partition: 1", "| cli | 1 | 0 | 1 | 0 |", "| http | 3 | 2 | 1 | 0 |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the comparison does not have %q:\n%s", want, &out)
		}
	}

	changes := map[string]func([]Answer) []Answer{
		"a header": func(a []Answer) []Answer {
			a[0].Text = strings.Replace(a[0].Text, "nosniff", "none", 1)
			return a
		},
		"white space in a body": func(a []Answer) []Answer { a[0].Text += " "; return a },
		"a missing answer":      func(a []Answer) []Answer { return a[1:] },
		"another call":          func(a []Answer) []Answer { return append(a, Answer{Kind: "cli", Call: "$ seb"}) },
	}
	for name, change := range changes {
		n := must.Get(Compare(t.Context(), &out, base, change(slices.Clone(base))))(t)
		check.Equalf(t, n, 1, "differences after a change of %s", name)
	}
}

func TestTimesFarFromNowStay(t *testing.T) {
	r := &run{}
	c := &call{}
	for _, text := range []string{"2020-03-01T12:00:00Z", "1600000000000", `"offset": 1234567890`, "10 records"} {
		check.Equalf(t, r.mask(c, text), text, "mask of %q", text)
	}
}

// TestEveryRouteIsCalled compares the list with the description of the API.
func TestEveryRouteIsCalled(t *testing.T) {
	root := must.Get(testenv.Root())(t)
	var api struct{ Paths map[string]map[string]any }
	text := must.Get(os.ReadFile(filepath.Join(root, "internal/protocols/httpapi/openapi.yaml")))(t)
	must.NoErrorf(t, yaml.Unmarshal(text, &api), "openapi.yaml")
	list := must.Get(parse(must.Get(Calls())(t)))(t)
	for path, methods := range api.Paths {
		pattern := regexp.MustCompile("^" + regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(path, "[^/]+") + `(\?|$)`)
		for method := range methods {
			called := slices.ContainsFunc(list, func(c *call) bool {
				return strings.EqualFold(c.verb, method) && pattern.MatchString(c.what)
			})
			if !called && method != "parameters" {
				t.Errorf("no file of calls has %s %s", strings.ToUpper(method), path)
			}
		}
	}
}
