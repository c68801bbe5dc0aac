package golden_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/objstore/anystore"
	"github.com/sebbroker/seb/test/golden"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

var (
	generate = flag.String("generate", "", "program that makes new archives in testdata")
	commit   = flag.String("commit", "", "name of its commit")
)

const apiKey = "golden-key-0123456789"

// TestGenerate makes an archive of each layout (the objects of a folder and of S3, the files of a folder
// with journals), of a bucket that was raised from level 1, of one with tokens and rules, of one
// with quotas, of one with queues, and of one with transactions:
//
//	go test ./test/golden -run TestGenerate -generate /path/to/seb -commit 2cd1551 \
//	    -level1 /path/to/level1/seb -level2 /path/to/level2/seb
func TestGenerate(t *testing.T) {
	if *generate == "" {
		t.Skip("needs -generate and -commit")
	}
	t.Run("disk", func(t *testing.T) { makeBucket(t, "disk", filepath.Join(t.TempDir(), "bucket")) })
	t.Run("s3", func(t *testing.T) { makeBucket(t, "s3", testenv.S3ForTest(t).Spec("golden")) })
	t.Run("journal", func(t *testing.T) { makeBucket(t, "journal", filepath.Join(t.TempDir(), "bucket")) })
	t.Run("raised", makeRaised)
	t.Run("access", makeAccess)
	t.Run("quotas", makeQuotas)
	t.Run("queues", makeQueues)
	t.Run("transactions", makeTransactions)
}

type maker struct {
	t            *testing.T
	program      string
	bucket, data string
	rounds       int // records of each kind that a call of records writes
	broker       *testenv.Broker
	kafka        string // address of the Kafka listener; "": none
	golden.Caller
}

func (m *maker) start() {
	m.t.Helper()
	env := []string{"SEB_API_KEY=" + apiKey, "AWS_ACCESS_KEY_ID=" + testenv.AccessKey, "AWS_SECRET_ACCESS_KEY=" + testenv.SecretKey}
	b := must.Get(testenv.Serve(m.program, env, "--bucket", m.bucket, "--data-dir", m.data, "--http-port", "0", "--kafka-listen", m.kafka,
		"--snapshot-slots", "10", "--merge-interval", "10ms", "--pack-age", "10ms", "--pack-bytes", "64KiB", "--batch-wait-time", "1ms"))(m.t)
	m.t.Cleanup(b.Kill)
	address := must.Get(b.Address(m.data))(m.t)
	m.broker, m.Caller = b, golden.Caller{Address: address, APIKey: apiKey}
}

func (m *maker) stop() {
	m.t.Helper()
	must.Equalf(m.t, m.broker.Stop(), 0, "exit code: %s", m.broker.Log())
}

func (m *maker) must(method, path, body string, headers ...string) []byte {
	m.t.Helper()
	answer := must.Get(m.Call(m.t.Context(), method, path, body, headers...))(m.t)
	return answer
}

func (m *maker) post(topic, lines string, headers ...string) {
	m.t.Helper()
	m.must("POST", "/records?topic-name="+topic, lines, append([]string{"Content-Type", "application/x-ndjson"}, headers...)...)
}

// records fills the topics; round makes the content of each epoch different.
func (m *maker) records(round int) {
	m.t.Helper()
	for i := range m.rounds {
		m.post("plain", fmt.Sprintf(`{"key":"k%d","value":"round %d","timestamp":%d,"headers":[{"key":"h","value":"%d"}]}`+"\n"+`{"value":null}`, i, round, 1_700_000_000_000+i, i))
		m.post("several&partition=2", fmt.Sprintf(`{"key":"s%d","value":"%s"}`, i, strings.Repeat("compressible ", 50)))
		m.post("stamped", fmt.Sprintf(`{"value":"%d"}`, i))
		m.post("compacted", fmt.Sprintf(`{"key":"k%d","value":"%d-%d"}`, i%7, round, i))
	}
	m.post("compacted", `{"key":"k6","value":null}`+"\n"+`{"key":"`+strings.Repeat("y", 10_000)+`","value":null}`)
}

func makeBucket(t *testing.T, layout, bucket string) {
	m := &maker{t: t, program: *generate, bucket: bucket, data: t.TempDir(), rounds: 20}
	m.start()
	for topic, body := range map[string]string{
		"plain": `{}`, "several": `{"partitions":3,"settings":{"compression":"zstd"}}`, "gone": `{}`,
		"stamped":   `{"settings":{"timestamp-type":"append"}}`,
		"trimmed":   `{"settings":{"retention-bytes":"1048576"}}`,
		"compacted": `{"settings":{"cleanup-policy":"compact"}}`,
	} {
		m.must("PUT", "/topic?topic-name="+topic, body, "Content-Type", "application/json")
	}
	m.post("gone", `{"value":"x"}`)
	m.must("DELETE", "/topic?topic-name=gone", "")
	m.post("trimmed", strings.Repeat(`{"value":"x"}`+"\n", 10))
	m.must("POST", "/topic/trim?topic-name=trimmed&partition=0&offset=4", "")
	for sequence := range 2 {
		m.post("several&partition=0", `{"key":"i","value":"idempotent"}`, "Seb-Producer-Id", "7", "Seb-Producer-Epoch", "1", "Seb-Sequence", fmt.Sprint(sequence))
	}
	m.records(0)
	m.must("PUT", "/offsets?group=readers&topic-name=plain&partition=0", `{"offset":5,"metadata":"about five"}`, "Content-Type", "application/json")
	m.must("PUT", "/triggers/bought", `{"expr":"bought","deliver":{"topic":"mails"}}`, "Content-Type", "application/json")
	m.must("PUT", "/triggers/waits", `{"expr":"bought THEN (NOT used WITHIN 3650 days)"}`, "Content-Type", "application/json")
	m.buy(3)
	m.compacts()
	m.stop()
	m.start()
	m.records(1)
	m.broker.Kill()
	m.start()
	m.records(2)
	m.stop()
	m.finish(layout)
}

// makeAccess makes a bucket with tokens and rules, in a snapshot and in later commit objects.
func makeAccess(t *testing.T) {
	m := &maker{t: t, program: *generate, bucket: filepath.Join(t.TempDir(), "bucket"), data: t.TempDir(), rounds: 3}
	m.start()
	for topic, body := range map[string]string{
		"plain": `{}`, "several": `{"partitions":3}`, "stamped": `{"settings":{"timestamp-type":"append"}}`, "compacted": `{"settings":{"cleanup-policy":"compact"}}`,
	} {
		m.must("PUT", "/topic?topic-name="+topic, body, "Content-Type", "application/json")
	}
	change := func(path, body string) { m.must("POST", path, body, "Content-Type", "application/json") }
	change("/tokens", `{"id":"shop","write":["orders.*"],"read":["products"],"groups":["*"],"expires_at":"2126-01-01T00:00:00Z"}`)
	change("/tokens", `{"id":"gone","cluster":true,"metrics":true}`)
	change("/acls", `{"rules":[{"principal":"*","resource":"topic","pattern":"archive","operation":"delete","deny":true},`+
		`{"principal":"later","resource":"topic","pattern":"*","operation":"all","host":"192.0.2.7"}]}`)
	m.records(0)
	m.compacts()
	m.must("DELETE", "/tokens/gone", "")
	change("/tokens/shop/rotate?overlap=876000h", "")
	change("/tokens", `{"id":"late","triggers":["a*"],"admin":["orders.*"]}`)
	m.stop()
	m.finish("access")
}

// makeQuotas makes a bucket with quotas, in a snapshot and in later commit objects.
func makeQuotas(t *testing.T) {
	m := &maker{t: t, program: *generate, bucket: filepath.Join(t.TempDir(), "bucket"), data: t.TempDir(), rounds: 2}
	m.start()
	for topic, body := range map[string]string{
		"plain": `{}`, "several": `{"partitions":3}`, "stamped": `{}`, "compacted": `{"settings":{"cleanup-policy":"compact"}}`,
	} {
		m.must("PUT", "/topic?topic-name="+topic, body, "Content-Type", "application/json")
	}
	limit := func(principal, body string) {
		m.must("PUT", "/quotas/"+principal, body, "Content-Type", "application/json")
	}
	m.must("POST", "/tokens", `{"id":"shop","write":["orders.*"]}`, "Content-Type", "application/json")
	limit("shop", `{"produce_bytes":1048576,"fetch_bytes":10485760,"requests":100}`)
	limit("gone", `{"requests":1}`)
	limit("*", `{"fetch_bytes":5}`)
	m.records(0)
	m.compacts()
	m.must("DELETE", "/quotas/gone", "")
	limit("*", `{"requests":500}`)
	limit("later", `{"produce_bytes":1099511627776}`)
	m.stop()
	m.finish("quotas")
}

// makeQueues makes a bucket with queues, whose messages are in every state, in a snapshot and in later
// commit objects.
func makeQueues(t *testing.T) {
	m := &maker{t: t, program: *generate, bucket: filepath.Join(t.TempDir(), "bucket"), data: t.TempDir(), rounds: 2}
	m.start()
	for topic, body := range map[string]string{
		"plain": `{}`, "several": `{"partitions":3}`, "stamped": `{}`, "compacted": `{"settings":{"cleanup-policy":"compact"}}`,
	} {
		m.must("PUT", "/topic?topic-name="+topic, body, "Content-Type", "application/json")
	}
	post := func(path, kind, body string, into any) {
		answer := m.must("POST", "/queues/"+path, body, "Content-Type", kind)
		if into != nil {
			must.NoError(t, json.Unmarshal(answer, into))
		}
	}
	const settings = `"keep-done":"unlimited","visibility":"12h","backoff":"300d"`
	m.must("PUT", "/queues/mails", `{"priorities":2,"settings":{`+settings+`,"rate":"1000"}}`, "Content-Type", "application/json")
	m.must("PUT", "/queues/ordered", `{"settings":{`+settings+`,"key-mode":"order"}}`, "Content-Type", "application/json")
	work := func(queue string, do ...string) {
		var got api.QueueMessages
		post(queue+"/lease", api.JSON, fmt.Sprintf(`{"max":%d,"wait":"20s"}`, len(do)), &got)
		var said api.Settlements
		for i := range got.Messages {
			if do[i] != "" {
				said.Messages = append(said.Messages, api.Settlement{Receipt: got.Messages[i].Receipt, Do: do[i], Reason: "golden"})
			}
		}
		post(queue+"/settle", api.JSON, string(must.Get(json.Marshal(said))(t)), nil)
	}
	send := func(round int) {
		for i := range 6 {
			post("mails/messages", api.NDJSON, fmt.Sprintf(`{"value":"m%d-%d","priority":%d,"headers":[{"key":"h","value":"v"}]}`, round, i, i%2), nil)
			post("ordered/messages", api.NDJSON, fmt.Sprintf(`{"key":"k%d","value":"o%d-%d"}`, i%3, round, i), nil)
		}
		post("mails/messages", api.NDJSON, fmt.Sprintf(`{"value":"later","delay":"360d"}`+"\n"+`{"value":"once","dedup":"id-%d"}`, round), nil)
		work("mails", "", "done", "retry", "dead", "extend", "done")
		work("ordered", "done", "retry", "")
	}
	send(0)
	m.records(0)
	m.compacts()
	send(1)
	m.stop()
	m.finish("queues")
}

// makeTransactions makes a bucket with committed, aborted and open transactions, and messages of a queue in them, in a
// snapshot and in later commit objects.
func makeTransactions(t *testing.T) {
	m := &maker{t: t, program: *generate, bucket: filepath.Join(t.TempDir(), "bucket"), data: t.TempDir(), rounds: 2}
	m.kafka = must.Get(testenv.FreeAddress())(t)
	m.start()
	for topic, body := range map[string]string{
		"plain": `{}`, "several": `{"partitions":3}`, "stamped": `{"settings":{"timestamp-type":"append"}}`, "compacted": `{"settings":{"cleanup-policy":"compact"}}`,
	} {
		m.must("PUT", "/topic?topic-name="+topic, body, "Content-Type", "application/json")
	}
	m.must("PUT", "/queues/jobs", `{}`, "Content-Type", "application/json")
	clients := map[string]*kgo.Client{}
	for _, id := range []string{"first", "second", "open"} {
		c := must.Get(kgo.NewClient(kgo.SeedBrokers(m.kafka), kgo.SASL(plain.Auth{User: "u", Pass: apiKey}.AsMechanism()),
			kgo.TransactionalID(id), kgo.TransactionTimeout(15*time.Minute), kgo.RecordPartitioner(kgo.ManualPartitioner())))(t)
		defer c.Close()
		clients[id] = c
	}
	send := func(id string, round int) *kgo.Client {
		c := clients[id]
		must.NoError(t, c.BeginTransaction())
		for i := range 3 {
			for _, r := range []*kgo.Record{
				{Topic: "plain"}, {Topic: "several", Partition: int32(i)}, {Topic: "stamped"}, {Topic: "compacted", Key: fmt.Appendf(nil, "k%d", i)}, {Topic: "jobs"},
			} {
				if id == "open" && r.Topic == "plain" {
					continue // the tests append to it, and read that
				}
				r.Value = fmt.Appendf(nil, "%s %d-%d", id, round, i)
				must.NoError(t, c.ProduceSync(t.Context(), r).FirstErr())
			}
		}
		return c
	}
	end := func(round int) {
		for id, try := range map[string]kgo.TransactionEndTry{"first": kgo.TryCommit, "second": kgo.TryAbort} {
			must.NoError(t, send(id, round).EndTransaction(t.Context(), try))
		}
	}
	end(0)
	m.records(0)
	end(1)
	m.compacts()
	end(2)
	send("open", 0)
	m.records(1)
	m.stop()
	m.kafka = ""
	m.finish("transactions")
}

// finish stores the archive and the program's answers, observed in a run that changes nothing
// before them.
func (m *maker) finish(layout string) {
	t := m.t
	store, err := anystore.Open(t.Context(), m.bucket, anystore.Options{AccessKey: testenv.AccessKey, SecretKey: testenv.SecretKey})
	must.NoError(t, err)
	var archive bytes.Buffer
	if layout == "journal" {
		err = golden.PackFiles(m.bucket, &archive)
	} else {
		err = golden.Pack(t.Context(), store, &archive)
	}
	must.NoError(t, err)
	env := []string{"SEB_API_KEY=" + apiKey, "AWS_ACCESS_KEY_ID=" + testenv.AccessKey, "AWS_SECRET_ACCESS_KEY=" + testenv.SecretKey}
	b, err := testenv.Serve(m.program, env, "--bucket", m.bucket, "--data-dir", m.data, "--http-port", "0", "--kafka-listen", "")
	must.NoError(t, err)
	t.Cleanup(b.Kill)
	address, err := b.Address(m.data)
	must.NoError(t, err)
	m.broker, m.Caller = b, golden.Caller{Address: address, APIKey: apiKey}
	var seen golden.Expectation
	sebtest.Eventually(m.t, "the trigger database is open", func() bool {
		seen, err = golden.Observe(t.Context(), m.Caller)
		return err == nil
	})
	text, err := json.MarshalIndent(seen, "", " ")
	must.NoError(t, err)
	base := filepath.Join("testdata", *commit+"-"+layout)
	for name, data := range map[string][]byte{base + ".tar.gz": archive.Bytes(), base + ".json": append(text, '\n')} {
		must.NoError(t, os.WriteFile(name, data, 0o600))
	}
}
