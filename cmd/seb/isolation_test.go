package main

import (
	"strings"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestConsumeOfTransactions: committed records are printed up to the first open transaction, and all with --isolation.
func TestConsumeOfTransactions(t *testing.T) {
	b := newTestBroker(t)
	must.Get(b.CreateTopic(t.Context(), "t", client.TopicSpec{}))(t)
	x := brokertest.NewTransactor(t, b.broker, "x")
	for _, value := range []string{"aborted", "committed", "open"} {
		x.Send(t, "t", 0, record.Record{Value: []byte(value)})
		if value != "open" {
			x.End(t, value == "committed")
		}
	}
	brokertest.Produce(t, b.broker, "t", 0, record.Record{Value: []byte("behind")})
	seb := func(args ...string) ran {
		t.Helper()
		return execute(t, newConsume(), "", append([]string{"t", "--address", b.address, "--api-key", testKey}, args...)...)
	}
	described := execute(t, newTopic(), "", "describe", "t", "--address", b.address, "--api-key", testKey)
	check.Containsf(t, described.out, "partition 0: readers wait at offset 4 for an open transaction", "topic describe")
	for args, want := range map[string]string{
		"":                                     "committed\n",
		"--isolation committed":                "committed\n",
		"--group g":                            "committed\n",
		"--isolation uncommitted":              "aborted\ncommitted\nopen\nbehind\n",
		"--isolation uncommitted --contains e": "aborted\ncommitted\nopen\nbehind\n",
		"--contains e":                         "committed\n",
	} {
		r := seb(strings.Fields(args)...)
		check.NoErrorf(t, r.fault, "%s", args)
		check.Equalf(t, r.out, want, "%s", args)
	}
	for args, want := range map[string]string{
		"--isolation dirty":                 `--isolation: "dirty", want committed or uncommitted`,
		"--isolation uncommitted --group g": "a group reads committed records only",
	} {
		if r := seb(strings.Fields(args)...); r.fault == nil || !strings.Contains(r.fault.Error(), want) {
			t.Errorf("%s: %v, want %s", args, r.fault, want)
		}
	}
}
