package conformance

import (
	"fmt"

	"github.com/sebbroker/seb/api"
)

// triggerCalls are the calls of triggers.
var triggerCalls = []*call{
	{
		name: "trigger put", do: "trigger_put", hits: "PUT /triggers/*", prepare: eventTopic, doubled: 1,
		args: func(c *cell) args {
			return args{"id": c.name, "spec": args{"expr": "paid THEN (NOT refunded WITHIN 7 days)", "topic": c.name, "fire": "edge", "cooldown": "1h", "deliver": args{"topic": c.name + "-out"}}}
		},
		stored: func(c *cell) (int, int, error) { return c.exists("/triggers/" + c.name) },
	},
	{
		name: "trigger get", do: "trigger_get", hits: "GET /triggers/*", prepare: trigger,
		args: func(c *cell) args { return args{"id": c.name} },
	},
	{
		name: "trigger delete", do: "trigger_delete", hits: "DELETE /triggers/*", prepare: trigger,
		args: func(c *cell) args { return args{"id": c.name} },
		stored: func(c *cell) (int, int, error) {
			there, _, err := c.exists("/triggers/" + c.name)
			return 1 - there, 1 - there, err
		},
	},
	{
		name: "explain", do: "explain", hits: "GET /triggers/*/entities/*", prepare: fired,
		args: func(c *cell) args { return args{"id": c.name, "entity": "u/1 ü"} },
	},
	{
		name: "firings", do: "firings", hits: "GET /firings", prepare: fired,
		args: func(c *cell) args { return args{"trigger": c.name, "limit": 10} },
	},
}

// trigger makes the trigger of the cell.
func trigger(c *cell) error {
	if err := eventTopic(c); err != nil {
		return err
	}
	return c.site().send("PUT", "/triggers/"+c.name, args{"expr": "paid", "topic": c.name}, nil)
}

// fired makes a trigger that has fired.
func fired(c *cell) error {
	if err := trigger(c); err != nil {
		return err
	}
	if err := c.site().send("POST", "/event?topic-name="+c.name, args{"event": "paid", "entity_id": "u/1 ü"}, nil); err != nil {
		return err
	}
	return await("the trigger fires", func() error {
		var got api.Firings
		if err := c.site().get("/firings?trigger="+c.name, &got); err != nil {
			return err
		}
		if len(got.Firings) != 1 || got.Firings[0].State != "delivered" {
			return fmt.Errorf("firings %+v", got.Firings)
		}
		return nil
	})
}
