package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/sebbroker/seb/api"
)

// queueCalls are the calls of queues and their workers.
var queueCalls = []*call{
	{
		name: "queue create", do: "queue_create", hits: "PUT /queues/*",
		args: func(c *cell) args {
			return args{"queue": c.name, "settings": args{"visibility": "1m", "max-deliveries": "3"}}
		},
		stored: func(c *cell) (int, int, error) { return c.exists("/queues/" + c.name) },
	},
	{
		name: "queue get", do: "queue_get", hits: "GET /queues/*", prepare: func(c *cell) error { return c.queue("a") },
		args: func(c *cell) args { return args{"queue": c.name} },
	},
	{
		name: "send", do: "send", hits: "POST /queues/*/messages", prepare: func(c *cell) error { return c.queue() },
		args: func(c *cell) args {
			return args{"queue": c.name, "messages": []args{{"value": "a", "key": "k", "headers": []args{{"key": "h", "value": "v"}}}, {"value_base64": "AP8="}}}
		},
		stored: func(c *cell) (int, int, error) { return c.messages("a", "AP8=") },
	},
	{
		name: "send with dedup IDs", do: "send", hits: "POST /queues/*/messages", prepare: func(c *cell) error { return c.queue() },
		args: func(c *cell) args {
			return args{"queue": c.name, "messages": []args{{"value": "a", "dedup": "1"}, {"value": "b", "dedup": "2"}, {"value": "a", "dedup": "1"}}}
		},
		stored: func(c *cell) (int, int, error) { return c.messages("a", "b") },
	},
	{
		name: "lease", do: "lease", hits: "POST /queues/*/lease", bounded: true, varies: true, prepare: func(c *cell) error { return c.queue("a", "b") },
		args: func(c *cell) args { return args{"queue": c.name, "max": 2, "visibility": "30s"} },
	},
	{
		name: "settle", do: "settle", hits: "POST /queues/*/settle", bounded: true, prepare: leased,
		args: func(c *cell) args {
			return args{"queue": c.name, "messages": []args{{"receipt": c.receipts[0], "do": "done"}, {"receipt": c.receipts[1], "do": "retry", "delay": "1h", "reason": "later"}, {"receipt": c.receipts[2], "do": "dead", "reason": "never"}}}
		},
		stored: settled,
	},
	{
		name: "work, lease", do: "work", hits: "POST /queues/*/lease", many: true, bounded: true, worker: true, varies: true, prepare: jobs, args: working, right: worked,
	},
	{
		name: "work, settle", do: "work", hits: "POST /queues/*/settle", many: true, bounded: true, worker: true, varies: true, prepare: jobs, args: working, right: worked,
	},
}

// queue makes the queue of the cell, and its messages.
func (c *cell) queue(values ...string) error {
	if err := c.site().send("PUT", "/queues/"+c.name, args{"settings": args{"visibility": "3s", "backoff": "10ms", "max-deliveries": 20}}, nil); err != nil || len(values) == 0 {
		return err
	}
	var list []args
	for _, v := range values {
		list = append(list, args{"value": v})
	}
	return c.site().send("POST", "/queues/"+c.name+"/messages", args{"messages": list}, nil)
}

// listed returns the messages of a queue that are not done.
func (c *cell) listed(queue string) ([]api.QueueMessage, error) {
	var all api.QueueMessages
	err := c.site().get("/queues/"+queue+"/messages?limit=1000", &all)
	return all.Messages, err
}

// messages counts messages by their values.
func (c *cell) messages(wanted ...string) (least, most int, err error) {
	all, err := c.listed(c.name)
	if err != nil {
		return 0, 0, err
	}
	counts := map[string]int{}
	for i := range all {
		counts[text(all[i].Value, all[i].ValueBase64)]++
	}
	least = counts[wanted[0]]
	for _, w := range wanted {
		least, most = min(least, counts[w]), max(most, counts[w])
	}
	return least, most, nil
}

// leased makes a queue whose messages the cell has.
func leased(c *cell) error {
	if err := c.queue("done", "retry", "dead"); err != nil {
		return err
	}
	var got api.QueueMessages
	if err := c.site().send("POST", "/queues/"+c.name+"/lease", args{"max": 3, "visibility": "10m"}, &got); err != nil {
		return err
	}
	slices.SortFunc(got.Messages, func(a, b api.QueueMessage) int {
		order := map[string]int{"done": 0, "retry": 1, "dead": 2}
		return order[*a.Value] - order[*b.Value]
	})
	for i := range got.Messages {
		c.receipts = append(c.receipts, got.Messages[i].Receipt)
	}
	if len(c.receipts) != 3 {
		return fmt.Errorf("leased %d messages, want 3", len(c.receipts))
	}
	return nil
}

// settled counts the settlements of the call that are stored. Each can be stored only once.
func settled(c *cell) (least, most int, err error) {
	err = await("dead messages are letters", func() error {
		var q api.Queue
		if err := c.site().get("/queues/"+c.name, &q); err != nil || q.Dying == 0 {
			return err
		}
		return fmt.Errorf("%d are on their way", q.Dying)
	})
	if err != nil {
		return 0, 0, err
	}
	all, err := c.listed(c.name)
	if err != nil {
		return 0, 0, err
	}
	n := 3
	for i := range all {
		if all[i].State != "retry" {
			n--
		}
	}
	return n / 3, (n + 2) / 3, nil
}

// Jobs of a worker, and what it does with them.
var script = map[string]string{"ok": "", "fail once": "fail:broken", "dead": "dead:no use", "slow": "sleep:0.05"}

func jobs(c *cell) error { return c.queue("ok", "dead", "slow", "ok 2", "ok 3") }

func working(c *cell) args {
	return args{"queue": c.name, "concurrency": 2, "until_empty": true, "log": c.log(), "script": script}
}

// worked checks that each message was given, and is done or a dead letter. A message whose settlement is not
// known comes again after its lease.
func worked(c *cell, result json.RawMessage) error {
	given := c.given()
	for _, v := range []string{"ok", "dead", "slow", "ok 2", "ok 3"} {
		if given[v] == 0 && !c.varies() {
			return fmt.Errorf("the function did not get %q", v)
		}
	}
	var letters []api.QueueMessage
	for end := time.Now().Add(readyTime); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		all, err := c.listed(c.name)
		if err != nil {
			return err
		}
		if len(all) > 0 && c.varies() {
			return nil // until_empty does not wait for the leases of others, and one was lost
		}
		if letters, err = c.listed(c.name + ".dead"); err != nil {
			return err
		}
		if len(all) == 0 && len(letters) == 1 {
			return nil
		}
	}
	return fmt.Errorf("%d dead letters, want 1, and no other message", len(letters))
}
