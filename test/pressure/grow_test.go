package pressure

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/sebtest"
)

var errStateFull = errors.New("state_full")

// TestStateGrows: clients create objects of each kind until they are refused. The broker stays
// within its limit, lists all objects, restarts, and accepts records throughout.
func TestStateGrows(t *testing.T) {
	beside(t)
	for _, c := range []struct {
		kind string
		grow func(g *grown) error // one step
		ends error                // refusal of further steps; nil: none
		most int                  // bound of steps
	}{
		{"topics", (*grown).topics, errStateFull, 100},
		{"partitions", (*grown).partitions, kerr.PolicyViolation, 100},
		{"written partitions", (*grown).written, kerr.PolicyViolation, 200},
		{"groups", (*grown).groups, errStateFull, 100_000},
		{"offsets", (*grown).offsets, kerr.InvalidCommitOffsetSize, 1000},
		{"members", (*grown).members, kerr.GroupMaxSizeReached, 100_000},
		{"producers", (*grown).producers, kerr.NotEnoughReplicas, 400},
		{"transactions", (*grown).transactions, kerr.PolicyViolation, 25},
		{"open messages of a queue", (*grown).openMessages, nil, openSteps},
		{"tokens", (*grown).tokens, nil, 20},
		{"rules", (*grown).rules, errStateFull, 100},
		{"quotas", (*grown).quotas, nil, 10},
	} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			g := &grown{kafkaVictim: &kafkaVictim{broker: start(t, "--batch-wait-time", "0", "--kafka-listen", "127.0.0.1:0")}}
			g.http.Transport = &http.Transport{MaxConnsPerHost: 60, MaxIdleConnsPerHost: 60}
			g.connect()
			defer func() { g.client.Close() }()
			steps := 0
			var err error
			for ; err == nil && steps < c.most; steps++ {
				err = c.grow(g)
			}
			if !errors.Is(err, c.ends) {
				t.Fatalf("step %d: %v, want %v\n%s", steps, err, c.ends, g.Log())
			}
			t.Logf("%d steps, then %v; the state takes %s of %s", steps, err,
				mib(int64(g.metric(`seb_memory_reserved_bytes{class="state"}`))), mib(int64(g.metric(`seb_memory_limit_bytes{class="state"}`))))
			after := func() {
				if g.lists(); c.kind == "producers" {
					g.fullOfProducers()
				}
			}
			after()
			g.produce("first", 1)
			g.restart()
			after()
			g.produce("first", 2)
			g.alive()
			g.within(limit)
		})
	}
}

// id returns a topic's ID, which newer requests use.
func (g *grown) id(topic string) [16]byte {
	r := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	r.Topics = append(r.Topics, t)
	resp, err := kafkaCall[*kmsg.MetadataResponse](g, r)
	if err != nil || len(resp.Topics) != 1 {
		return [16]byte{}
	}
	return resp.Topics[0].TopicID
}

// grown is a broker with a growing state.
type grown struct {
	*kafkaVictim
	client *kgo.Client
	http   http.Client
	n      int               // number of the next step
	open   []record.Producer // of the transactions in a queue
	wg     sync.WaitGroup
}

func (g *grown) connect() {
	g.t.Helper()
	g.client = must.Get(kgo.NewClient(
		kgo.SeedBrokers(g.listens()), kgo.SASL(plain.Auth{User: "u", Pass: key}.AsMechanism()),
		kgo.RequestTimeoutOverhead(sebtest.Limit), // a request of quotas makes 100 changes, one after the other
	))(g.t)
}

// kafkaCall sends a request to the broker.
func kafkaCall[R kmsg.Response](g *grown, r kmsg.Request) (R, error) {
	resp, err := g.client.SeedBrokers()[0].Request(g.t.Context(), r)
	if err != nil {
		var none R
		return none, err
	}
	return resp.(R), nil
}

// create creates topics with a number of partitions each.
func (g *grown) create(topics, partitions int) error {
	return g.each(topics, func(n int) error {
		r := kmsg.NewPtrCreateTopicsRequest()
		r.TimeoutMillis = 20_000
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = fmt.Sprintf("topic-%06d", n), int32(partitions), -1
		r.Topics = append(r.Topics, t)
		resp, err := kafkaCall[*kmsg.CreateTopicsResponse](g, r)
		if err != nil {
			return err
		}
		out := &resp.Topics[0]
		if err = kerr.ErrorForCode(out.ErrorCode); err != nil && (out.ErrorMessage == nil || !strings.Contains(*out.ErrorMessage, "--memory-limit")) {
			err = fmt.Errorf("error %v does not name the limit", err)
		}
		return err
	})
}

// each calls f concurrently with the next numbers and returns one of the errors.
func (g *grown) each(many int, f func(n int) error) error {
	errs := make(chan error, many)
	for range many {
		n := g.n
		g.n++
		g.wg.Go(func() { errs <- f(n) })
	}
	g.wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (g *grown) put(path, body string) error { return g.change(http.MethodPut, path, body) }

// change sends a request over HTTP.
func (g *grown) change(method, path, body string) error {
	resp, text, err := g.ask(g.t.Context(), g.url+path, request{method: method, kind: api.JSON, body: []byte(body), client: &g.http})
	if err != nil || resp.StatusCode < http.StatusMultipleChoices {
		return err
	}
	if resp.StatusCode == http.StatusConflict && bytes.Contains(text, []byte(`"code":"state_full"`)) && bytes.Contains(text, []byte("--memory-limit")) {
		return errStateFull
	}
	return fmt.Errorf("%s %s", resp.Status, text)
}

func (g *grown) topics() error {
	const settings = `{"settings":{"retention-time":"24h","retention-bytes":1048576,"compression":"zstd","key-index":true,"cleanup-policy":"delete"}}`
	return g.each(500, func(n int) error { return g.put(fmt.Sprintf("/topic?topic-name=topic-%06d", n), settings) })
}

// tokens creates tokens with some rules each. A token costs milliseconds of CPU, so the limit of
// tokens is a test of package access.
func (g *grown) tokens() error {
	return g.each(10, func(n int) error {
		return g.change(http.MethodPost, "/tokens", fmt.Sprintf(`{"id":"token-%06d","read":["a-%[1]d","b-%[1]d.*"],"write":["c-%[1]d"]}`, n))
	})
}

// rules adds rules with long names.
func (g *grown) rules() error {
	var list []string
	for range 500 {
		g.n++
		list = append(list, fmt.Sprintf(`{"principal":"token-%06d","resource":"topic","pattern":"%0200d*","operation":"read"}`, g.n/5, g.n))
	}
	return g.change(http.MethodPost, "/acls", `{"rules":[`+strings.Join(list, ",")+`]}`)
}

// quotas sets the quotas of users, and first the one of all others. Each is a change of its own, so
// the limit of quotas is a test of package state.
func (g *grown) quotas() error {
	r := kmsg.NewPtrAlterClientQuotasRequest()
	for range 100 {
		entity := kmsg.NewAlterClientQuotasRequestEntryEntity()
		if entity.Type = "user"; g.n > 0 {
			entity.Name = new(fmt.Sprintf("user-%059d", g.n)) // as long as IDs can be
		}
		op := kmsg.NewAlterClientQuotasRequestEntryOp()
		op.Key, op.Value = "producer_byte_rate", 1<<20
		entry := kmsg.NewAlterClientQuotasRequestEntry()
		entry.Entity, entry.Ops = append(entry.Entity, entity), append(entry.Ops, op)
		r.Entries = append(r.Entries, entry)
		g.n++
	}
	resp, err := kafkaCall[*kmsg.AlterClientQuotasResponse](g, r)
	if err != nil {
		return err
	}
	for i := range resp.Entries {
		if err := kerr.ErrorForCode(resp.Entries[i].ErrorCode); err != nil {
			return err
		}
	}
	return nil
}

func (g *grown) partitions() error { return g.create(1, 10_000) }

// written creates a topic and writes to each of its partitions.
func (g *grown) written() error {
	if err := g.create(1, 500); err != nil {
		return err
	}
	return g.append(fmt.Sprintf("topic-%06d", g.n-1), 500, record.Producer{ID: -1, Epoch: -1, Sequence: -1})
}

// append appends a batch to each partition of a topic, each by its own producer if p has an ID.
func (g *grown) append(topic string, partitions int, p record.Producer) error {
	r := kmsg.NewPtrProduceRequest()
	r.Acks, r.TimeoutMillis = -1, 20_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = topic, g.id(topic)
	for i := range partitions {
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition = int32(i)
		data, _ := recordtest.Encode([]record.Record{{Value: []byte("x"), Timestamp: time.Now().UnixMilli()}}, record.EncodeOptions{})
		if p.ID >= 0 {
			record.StampProducer(data, p)
			p.ID++
		}
		part.Records = data
		t.Partitions = append(t.Partitions, part)
	}
	r.Topics = append(r.Topics, t)
	resp, err := kafkaCall[*kmsg.ProduceResponse](g, r)
	if err != nil {
		return err
	}
	for _, p := range resp.Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			return err
		}
	}
	return nil
}

// producers appends as 100 new producers.
func (g *grown) producers() error {
	if g.n == 0 {
		if err := g.create(1, 100); err != nil {
			return err
		}
	}
	g.n++
	return g.append("topic-000000", 100, record.Producer{ID: int64(1000 * g.n)})
}

// commit commits offsets of a group in a number of partitions.
func (g *grown) commit(group, topic string, partitions int) error {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Group, r.Generation = group, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID = topic, g.id(topic)
	for i := range partitions {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Metadata = int32(i), new(strings.Repeat("m", 100))
		t.Partitions = append(t.Partitions, p)
	}
	r.Topics = append(r.Topics, t)
	resp, err := kafkaCall[*kmsg.OffsetCommitResponse](g, r)
	if err != nil {
		return err
	}
	for _, p := range resp.Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			return err
		}
	}
	return nil
}

// groups creates groups with an offset each. Offsets wait up to a second unless something else is
// stored, so it also appends.
func (g *grown) groups() error {
	done, stopped := make(chan struct{}), make(chan struct{})
	defer func() { close(done); <-stopped }()
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			default:
				g.post("first", 3)
			}
		}
	}()
	body := fmt.Sprintf(`{"offset":1,"metadata":%q}`, strings.Repeat("m", 4000))
	return g.each(200, func(n int) error {
		return g.put(fmt.Sprintf("/offsets?group=group-%06d&topic-name=first&partition=0", n), body)
	})
}

func (g *grown) offsets() error {
	if g.n == 0 {
		if err := g.create(1, 1000); err != nil {
			return err
		}
	}
	return g.each(6, func(n int) error { return g.commit(fmt.Sprintf("group-%06d", n), "topic-000000", 1000) })
}

// members makes members join separate groups.
func (g *grown) members() error {
	return g.each(150, func(n int) error {
		r := kmsg.NewPtrJoinGroupRequest()
		// A static member joins without waiting.
		r.Group, r.ProtocolType, r.InstanceID = fmt.Sprintf("group-%06d", n), "consumer", new("i")
		r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 300_000, 300_000
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = "range", make([]byte, 8000)
		r.Protocols = append(r.Protocols, p)
		resp, err := kafkaCall[*kmsg.JoinGroupResponse](g, r)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
}

// lists requests every list, several at once. Requests may be refused for lack of memory.
func (g *grown) lists() {
	g.t.Helper()
	for range 4 {
		for _, path := range []string{"/topics", "/groups", "/topic?topic-name=topic-000000", "/group?group=group-000000", "/quotas", "/transactions", "/metrics", "/readyz"} {
			g.wg.Go(func() {
				switch resp, _, err := g.ask(g.t.Context(), g.url+path, request{accept: "application/json, text/plain", client: http.DefaultClient, discard: true}); {
				case err != nil:
					g.t.Errorf("%s: %v", path, err)
				case resp.StatusCode >= http.StatusInternalServerError:
					g.t.Errorf("%s: %s", path, resp.Status)
				}
			})
		}
		g.wg.Go(func() {
			r := kmsg.NewPtrMetadataRequest()
			check.NoErrorf(g.t, check.Err(kafkaCall[*kmsg.MetadataResponse](g, r)), "metadata")
		})
	}
	g.wg.Wait()
}

// restart stops the broker and starts it again.
func (g *grown) restart() {
	g.t.Helper()
	g.client.Close()
	g.broker.restart()
	g.connect()
}
