package main

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestReferenceIsGenerated: docs/reference/flags.md and http.md have every flag, route and error
// code. Run it with -update after a change of these.
func TestReferenceIsGenerated(t *testing.T) {
	root, _ := newRoot()
	consume, _ := must.Get2(root.Find([]string{"consume"}))(t)
	var flags strings.Builder
	flagTables(&flags, root)
	sebtest.Generated(t, "../../docs/reference/flags.md", "client flags", flagTable(clientFlags(consume), &pflag.FlagSet{}))
	sebtest.Generated(t, "../../docs/reference/flags.md", "flags", flags.String())
	sebtest.Generated(t, "../../docs/reference/http.md", "routes", routeTable(t))
	sebtest.Generated(t, "../../docs/reference/http.md", "codes", codeTable())
	sebtest.Generated(t, "../../docs/guide/queues.md", "queue settings", queueSettings())
}

// queueSettings is the table of the settings of queues.
func queueSettings() string {
	var b strings.Builder
	b.WriteString("| setting | default | values | meaning |\n|---|---|---|---|\n")
	for _, s := range state.QueueSettingTable() {
		values := strings.Join(s.Choices, ", ")
		if s.Min != "" && s.Max != "" {
			values = s.Min + " to " + s.Max
		}
		if s.Unlimited {
			values = "also unlimited"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Name, s.Default, values, mdCell(s.Meaning))
	}
	return b.String()
}

// clientFlags are the flags of each command that connects to a broker. They have a separate
// section.
func clientFlags(c *cobra.Command) *pflag.FlagSet {
	for ; c != nil; c = c.Parent() {
		if flags := c.PersistentFlags(); flags.Lookup("ca-file") != nil {
			return flags
		}
	}
	return &pflag.FlagSet{}
}

// flagTables has a section for each command below c with an action.
func flagTables(b *strings.Builder, c *cobra.Command) {
	client := clientFlags(c)
	flags := flagTable(c.LocalFlags(), client)
	if c.HasParent() && (flags != "" || !c.HasSubCommands()) && c.Runnable() {
		fmt.Fprintf(b, "\n## %s\n\n%s.", c.CommandPath(), mdCell(c.Short))
		if client.HasFlags() && c.Annotations[commandAway] == "" {
			b.WriteString(" Takes the [client flags](#client-flags).")
		}
		b.WriteString("\n" + flags)
	}
	for _, sub := range c.Commands() {
		flagTables(b, sub)
	}
}

// flagTable describes the flags of a set that are not in the other set.
func flagTable(set, without *pflag.FlagSet) string {
	var b strings.Builder
	set.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Deprecated != "" || without.Lookup(f.Name) != nil {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		if f.Hidden {
			name += " (hidden)"
		}
		value := ""
		if f.DefValue != "" && f.DefValue != "[]" {
			value = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, value, mdCell(f.Usage))
	})
	if b.Len() == 0 {
		return ""
	}
	return "\n| flag | default | purpose |\n|---|---|---|\n" + b.String()
}

// mdCell escapes a text for a cell of a Markdown table.
func mdCell(text string) string { return strings.NewReplacer("|", `\|`, "<", `\<`).Replace(text) }

// routeTable has the routes of the OpenAPI description by path, with the rights that they need.
func routeTable(t *testing.T) string {
	t.Helper()
	f := must.Get(os.Open("../../internal/protocols/httpapi/openapi.json.gz"))(t)
	defer f.Close()
	var spec struct {
		Paths map[string]map[string]struct {
			Summary string
			Rights  string `json:"x-rights"`
		}
	}
	must.NoError(t, json.NewDecoder(must.Get(gzip.NewReader(f))(t)).Decode(&spec))
	var b strings.Builder
	b.WriteString("| route | purpose | rights |\n|---|---|---|\n")
	for _, path := range slices.Sorted(maps.Keys(spec.Paths)) {
		for _, method := range []string{"get", "put", "post", "delete"} {
			if op, ok := spec.Paths[path][method]; ok {
				fmt.Fprintf(&b, "| `%s %s` | %s | %s |\n", strings.ToUpper(method), path, mdCell(op.Summary), op.Rights)
			}
		}
	}
	return b.String()
}

// codeTable has the error codes by status.
func codeTable() string {
	var b strings.Builder
	b.WriteString("| status | code | title |\n|---|---|---|\n")
	codes := slices.SortedFunc(maps.Keys(api.Statuses), func(x, y api.Code) int {
		return cmp.Or(api.Statuses[x]-api.Statuses[y], strings.Compare(string(x), string(y)))
	})
	for _, c := range codes {
		fmt.Fprintf(&b, "| %d | `%s` | %s |\n", api.Statuses[c], c, mdCell(api.Titles[c]))
	}
	return b.String()
}
