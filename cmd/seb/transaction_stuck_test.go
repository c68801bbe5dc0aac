package main_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestAStuckTransaction: a Kafka client goes away in a transaction, and its broker is killed. The records
// behind it wait until an operator has found and aborted it.
func TestAStuckTransaction(t *testing.T) {
	p := newWorkDir(t)
	args := []string{"--bucket", "./bucket", "--kafka-listen", "127.0.0.1:0", "--audit-topic", "audit"}
	b := p.serve(args...)
	p.must("topic", "create", "orders")
	p.mustWith("before\n", "produce", "orders")
	key := strings.TrimSpace(string(must.Get(os.ReadFile(filepath.Join(p.dir, "seb-data", "api-key")))(t)))
	at := kafkaLine.FindStringSubmatch(b.err.String())
	must.Equalf(t, len(at), 2, "the Kafka address in: %s", b.err.String())
	c := must.Get(kgo.NewClient(kgo.SeedBrokers(at[1]), kgo.SASL(plain.Auth{User: "seb", Pass: key}.AsMechanism()),
		kgo.TransactionalID("billing-0"), kgo.TransactionTimeout(10*time.Minute)))(t)
	must.NoError(t, c.BeginTransaction())
	must.NoError(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("of the transaction")}).FirstErr())
	c.Close()
	b.kill()
	p.serve(args...)
	p.mustWith("after\n", "produce", "orders")

	check.Equalf(t, p.must("consume", "orders"), "before\n", "what a consumer sees beside the open transaction")
	if got := p.must("transaction", "list"); !regexp.MustCompile(`(?m)^billing-0 +open +\S+ +10m0s +1 +0$`).MatchString(got) {
		t.Errorf("list: %s", got)
	}
	check.Containsf(t, p.must("transaction", "describe", "billing-0"), "orders  0          1      1\n", "describe")
	p.refused(2, "confirm with --yes", "transaction", "abort", "billing-0")
	check.Equalf(t, p.must("transaction", "abort", "billing-0", "--yes"), "the transaction of billing-0 is aborted\n", "abort")
	p.refused(1, "has no open transaction", "transaction", "abort", "billing-0", "--yes")
	check.Equalf(t, p.must("consume", "orders"), "before\nafter\n", "what a consumer sees after the abort")
	if got := p.audit("--action", "transaction.abort"); !strings.Contains(got, "transactional-id") || !strings.Contains(got, "billing-0") {
		t.Errorf("audit: %s", got)
	}
}
