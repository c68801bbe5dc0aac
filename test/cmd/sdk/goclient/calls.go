package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/webhook"
)

// calls are the calls by name. Their arguments and results are the same for all languages.
var calls = map[string]func(ctx context.Context, s *session, args json.RawMessage) (any, error){
	"open": func(_ context.Context, s *session, args json.RawMessage) (any, error) { return nil, s.open(args) },
	"stop": func(_ context.Context, s *session, _ json.RawMessage) (any, error) { s.stop(); return nil, nil },
	"work": func(ctx context.Context, s *session, args json.RawMessage) (any, error) { return s.work(ctx, args) },

	"produce": call(produce), "read": call(read), "consume": call(consume), "stream": call(stream), "event": call(event),
	"topic_create": call(func(ctx context.Context, c *client.Client, in *topicArgs) (any, error) {
		_, err := c.CreateTopic(ctx, in.Topic, client.TopicSpec{Partitions: in.Partitions})
		return nil, err
	}),
	"topic_get":   call(func(ctx context.Context, c *client.Client, in *topicArgs) (any, error) { return c.Topic(ctx, in.Topic) }),
	"trigger_put": call(putTrigger),
	"trigger_get": call(func(ctx context.Context, c *client.Client, in *triggerArgs) (any, error) {
		return c.Trigger(ctx, in.ID)
	}),
	"trigger_delete": call(func(ctx context.Context, c *client.Client, in *triggerArgs) (any, error) {
		return nil, c.DeleteTrigger(ctx, in.ID)
	}),
	"explain": call(func(ctx context.Context, c *client.Client, in *triggerArgs) (any, error) {
		return c.Explain(ctx, in.ID, in.Entity)
	}),
	"firings":      call(firings),
	"queue_create": call(createQueue),
	"queue_get":    call(func(ctx context.Context, c *client.Client, in *queueArgs) (any, error) { return c.Queue(ctx, in.Queue) }),
	"send": call(func(ctx context.Context, c *client.Client, in *struct {
		Queue    string                   `json:"queue"`
		Messages []client.OutgoingMessage `json:"messages"`
	},
	) (any, error) {
		return messages(c.SendMessages(ctx, in.Queue, in.Messages...))
	}),
	"lease": call(func(ctx context.Context, c *client.Client, in *queueArgs) (any, error) {
		return messages(c.Lease(ctx, in.Queue, in.LeaseRequest))
	}),
	"settle": call(func(ctx context.Context, c *client.Client, in *struct {
		Queue    string              `json:"queue"`
		Messages []client.Settlement `json:"messages"`
	},
	) (any, error) {
		return messages(c.Settle(ctx, in.Queue, in.Messages...))
	}),
	"verify": func(_ context.Context, _ *session, args json.RawMessage) (any, error) { return verify(args) },
}

type topicArgs struct {
	Topic      string `json:"topic"`
	Partitions int    `json:"partitions"`
}

type triggerArgs struct {
	ID     string          `json:"id"`
	Entity string          `json:"entity"`
	Spec   api.TriggerSpec `json:"spec"`
}

type queueArgs struct {
	Queue    string            `json:"queue"`
	Settings map[string]string `json:"settings"`
	client.LeaseRequest
}

// call adapts a function with arguments of type A.
func call[A any](f func(ctx context.Context, c *client.Client, in *A) (any, error)) func(context.Context, *session, json.RawMessage) (any, error) {
	return func(ctx context.Context, s *session, args json.RawMessage) (any, error) {
		in := new(A)
		decode(args, in)
		return f(ctx, s.current(), in)
	}
}

func messages[M any](list []M, err error) (any, error) {
	return map[string][]M{"messages": append([]M{}, list...)}, err
}

func produce(ctx context.Context, c *client.Client, in *struct {
	Topic   string `json:"topic"`
	Records []struct {
		api.Record
		Timestamp int64 `json:"timestamp"`
	} `json:"records"`
	Partition      *int32 `json:"partition"`
	ExpectedOffset *int64 `json:"expected_offset"`
},
) (any, error) {
	records := make([]record.Record, len(in.Records))
	for i := range in.Records {
		r := &in.Records[i]
		records[i] = record.Record{Key: bytesOf(r.Key, r.KeyBase64), Value: bytesOf(r.Value, r.ValueBase64), Timestamp: r.Timestamp}
		for _, h := range r.Headers {
			records[i].Headers = append(records[i].Headers, record.Header{Key: h.Key, Value: bytesOf(h.Value, h.ValueBase64)})
		}
	}
	list, err := c.Produce(ctx, in.Topic, records, client.ProduceOptions{Partition: in.Partition, ExpectedOffset: in.ExpectedOffset})
	slices.SortFunc(list, func(a, b client.ProduceResult) int { return cmp.Compare(a.Partition, b.Partition) })
	return map[string]any{"results": results(list)}, err
}

func results(list []client.ProduceResult) []api.PartitionResult {
	out := make([]api.PartitionResult, len(list))
	for i, r := range list {
		out[i] = api.PartitionResult{Partition: r.Partition, FirstOffset: &r.First, Count: r.Count}
	}
	return out
}

func bytesOf(text, encoded *string) []byte {
	switch {
	case text != nil:
		return []byte(*text)
	case encoded != nil:
		b, err := base64.StdEncoding.DecodeString(*encoded)
		if err != nil {
			panic(err)
		}
		return b
	}
	return nil
}

// offset is a number, "earliest" or "latest".
type offset int64

func (o *offset) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case `"earliest"`:
		*o = offset(client.Earliest)
	case `"latest"`:
		*o = offset(client.Latest)
	default:
		return json.Unmarshal(text, (*int64)(o))
	}
	return nil
}

// taken is a record of a call that has read partitions.
type taken struct {
	Partition int32   `json:"partition"`
	Offset    int64   `json:"offset"`
	Value     *string `json:"value"` // null is null; the values that the driver streams are text
}

func takenOf(partition int32, r *record.Record) taken {
	value, _ := api.TextOrBase64(r.Value)
	return taken{partition, r.Offset, value}
}

func read(ctx context.Context, c *client.Client, in *struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    offset `json:"offset"`
	Max       int    `json:"max"`
},
) (any, error) {
	list := []api.Record{}
	for r, err := range c.Records(ctx, in.Topic, client.ReadOptions{Partition: in.Partition, Offset: int64(in.Offset)}) {
		if err != nil {
			return nil, err
		}
		out := api.Record{Offset: r.Offset, Timestamp: r.Timestamp}
		out.Key, out.KeyBase64 = api.TextOrBase64(r.Key)
		out.Value, out.ValueBase64 = api.TextOrBase64(r.Value)
		for _, h := range r.Headers {
			text, encoded := api.TextOrBase64(h.Value)
			out.Headers = append(out.Headers, api.Header{Key: h.Key, Value: text, ValueBase64: encoded})
		}
		if list = append(list, out); len(list) >= in.Max {
			break
		}
	}
	return map[string]any{"records": list}, nil
}

func consume(ctx context.Context, c *client.Client, in *struct {
	Group  string `json:"group"`
	Topic  string `json:"topic"`
	Max    int    `json:"max"`
	Follow bool   `json:"follow"`
},
) (_ any, err error) {
	k, err := c.Consumer(ctx, in.Group, in.Topic, client.ConsumerOptions{Follow: in.Follow})
	if err != nil {
		return nil, err
	}
	list := []taken{}
	for len(list) < in.Max {
		m, err := k.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, errors.Join(err, k.Close(ctx))
		}
		list = append(list, takenOf(m.Partition, m.Record))
		k.Done()
	}
	return map[string]any{"records": list}, k.Close(ctx)
}

// stream follows one partition or all. Package client has long polls for that.
func stream(ctx context.Context, c *client.Client, in *struct {
	Topic     string          `json:"topic"`
	Partition json.RawMessage `json:"partition"`
	Offset    offset          `json:"offset"`
	Max       int             `json:"max"`
},
) (any, error) {
	var partitions []int32
	if string(in.Partition) == `"all"` {
		t, err := c.Topic(ctx, in.Topic)
		if err != nil {
			return nil, err
		}
		for _, p := range t.Partitions {
			partitions = append(partitions, p.Partition)
		}
	} else {
		partitions = make([]int32, 1)
		decode(in.Partition, &partitions[0])
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex // guards list and failed
	list := []taken{}
	var failed error
	var readers sync.WaitGroup
	for _, p := range partitions {
		readers.Go(func() {
			defer cancel()
			for r, err := range c.Records(ctx, in.Topic, client.ReadOptions{Partition: p, Offset: int64(in.Offset), Follow: true}) {
				mu.Lock()
				if err != nil && ctx.Err() == nil && failed == nil {
					failed = err
				}
				if err == nil && len(list) < in.Max {
					list = append(list, takenOf(p, r))
				}
				full := len(list) >= in.Max
				mu.Unlock()
				if err != nil || full {
					return
				}
			}
		})
	}
	readers.Wait()
	if failed != nil {
		return nil, failed
	}
	return map[string]any{"records": list}, nil
}

func event(ctx context.Context, c *client.Client, in *struct {
	Events []client.Event `json:"events"`
	Topic  string         `json:"topic"`
	Many   bool           `json:"many"`
},
) (any, error) {
	o := client.EventOptions{Topic: in.Topic}
	if in.Many {
		list, err := c.ProduceEvents(ctx, in.Events, o)
		return map[string]any{"results": results(list)}, err
	}
	e, err := c.ProduceEvent(ctx, in.Events[0], o)
	out := api.EventStored{Topic: e.Topic, Partition: e.Partition, Offset: e.Offset, Time: e.Time}
	if e.Duplicate {
		out.Duplicate, out.OriginalOffset = &e.Duplicate, &e.Original
	}
	return out, err
}

func putTrigger(ctx context.Context, c *client.Client, in *triggerArgs) (any, error) {
	s := in.Spec
	var expr string
	if json.Unmarshal(s.Expr, &expr) != nil {
		expr = string(s.Expr)
	}
	return c.PutTrigger(ctx, in.ID, client.TriggerSpec{
		Expr: expr, Topic: s.Topic, Fire: s.Fire, Cooldown: s.Cooldown, Backfill: s.Backfill, CarryFired: s.CarryFired,
		OnRetract: s.OnRetract, Status: s.Status, Deliver: s.Deliver, KeepDeliver: s.KeepDeliver,
	})
}

func firings(ctx context.Context, c *client.Client, in *struct {
	Trigger string `json:"trigger"`
	Limit   int    `json:"limit"`
},
) (any, error) {
	list, next, err := c.Firings(ctx, client.FiringQuery{Trigger: in.Trigger, Limit: in.Limit})
	out := api.Firings{Firings: list}
	if next != 0 {
		out.Next = &next
	}
	return out, err
}

func createQueue(ctx context.Context, c *client.Client, in *queueArgs) (any, error) {
	return c.CreateQueue(ctx, in.Queue, client.QueueSpec{Settings: in.Settings})
}

func verify(args json.RawMessage) (any, error) {
	var in struct {
		Secrets    []string          `json:"secrets"`
		Headers    map[string]string `json:"headers"`
		BodyBase64 *string           `json:"body_base64"`
		Tolerance  float64           `json:"tolerance"`
		Now        *float64          `json:"now"`
	}
	decode(args, &in)
	v := webhook.Verifier{Tolerance: seconds(in.Tolerance)}
	if in.Now != nil {
		v.Now = func() time.Time { return time.Unix(0, int64(seconds(*in.Now))) }
	}
	for _, text := range in.Secrets {
		s, err := webhook.ParseSecret(text)
		if err != nil {
			return nil, err
		}
		v.Secrets = append(v.Secrets, s)
	}
	h := http.Header{}
	for name, value := range in.Headers {
		h.Set(name, value)
	}
	got, err := v.Verify(h, bytesOf(nil, in.BodyBase64))
	if err != nil {
		return nil, err
	}
	return map[string]any{"id": got.ID, "sent_at": got.SentAt.Unix()}, nil
}
