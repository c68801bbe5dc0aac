package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestTransactions: readers wait for an open transaction until an operator finds and aborts it.
func TestTransactions(t *testing.T) {
	b := newTestBroker(t)
	seb := func(args ...string) ran {
		t.Helper()
		return execute(t, newTransaction(), "", append([]string{"--address", b.address, "--api-key", testKey}, args...)...)
	}
	check.Equalf(t, seb("list").out, "TRANSACTIONAL-ID  STATE  AGE  TIMEOUT  PARTITIONS  OFFSETS\n", "without one")
	if r := seb("describe", "pay"); r.fault == nil || !strings.Contains(r.fault.Error(), `no producer has the transactional ID "pay"`) {
		t.Errorf("describe an unknown ID: %+v", r)
	}
	must.Get(b.CreateTopic(t.Context(), "t", client.TopicSpec{}))(t)
	p := must.Get(b.broker.InitTransactions(t.Context(), broker.InitTransactions{ID: "pay", Timeout: 15 * time.Minute, Was: state.ProducerEpoch{ID: -1}}))(t)
	if r := seb("abort", "pay", "--yes"); r.fault == nil || !strings.Contains(r.fault.Error(), `the transactional ID "pay" has no open transaction`) {
		t.Errorf("abort without a transaction: %+v", r)
	}
	r := brokertest.Try(t.Context(), b.broker, brokertest.AppendWith("t", 0, record.EncodeOptions{
		Transactional: true, Producer: &record.Producer{ID: p.ID, Epoch: p.Epoch},
	}, record.Record{Value: []byte("v")}))
	must.NoError(t, r.Err)
	for _, want := range []struct{ command, lines string }{
		{"list", `(?m)^pay +open +\d+m?s +15m0s +1 +0$`},
		{"describe", `(?m)^state +open\nproducer +\d+, epoch 0\ntimeout +15m0s\nchanged +2\S+Z\nstarted +2\S+Z, \d+m?s ago\noffsets +0 of consumer groups\n\nTOPIC +PARTITION +FIRST +STABLE\nt +0 +0 +0\n$`},
	} {
		args := []string{want.command}
		if want.command == "describe" {
			args = append(args, "pay")
		}
		if r := seb(args...); r.fault != nil || !regexp.MustCompile(want.lines).MatchString(r.out) {
			t.Errorf("%v: %v: %s, want %s", args, r.fault, r.out, want.lines)
		}
	}
	var described client.Transaction
	if err := json.Unmarshal([]byte(seb("describe", "pay", "--json").out), &described); err != nil || described.ID != "pay" || len(described.Partitions) != 1 {
		t.Errorf("describe --json: %+v, %v", described, err)
	}
	if r := seb("abort", "pay"); r.fault == nil || !strings.Contains(r.fault.Error(), "would abort the transaction with records in 1 partition, and fence its producer; confirm with --yes") {
		t.Errorf("abort without --yes: %+v", r)
	}
	if r := seb("abort", "pay", "--yes"); r.fault != nil || r.out != "the transaction of pay is aborted\n" {
		t.Errorf("abort: %+v", r)
	}
	check.Containsf(t, seb("list").out, "pay               aborted_by_broker  -", "list after the abort")
	check.Containsf(t, seb("describe", "pay").out, "state     aborted_by_broker\n", "describe after the abort")
}
