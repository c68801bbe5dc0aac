// Command jobs sends jobs to a queue and works on them until there are none.
//
//	SEB_API_KEY=$(cat seb-data/api-key) go run ./examples/jobs
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/sebbroker/seb/client"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, cmp.Or(os.Getenv("SEB_ADDRESS"), "http://127.0.0.1:51313"), os.Getenv("SEB_API_KEY")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, address, key string) error {
	c, err := client.New(address, client.Options{APIKey: key, RetryTime: 5 * time.Second})
	if err != nil {
		return err
	}
	defer c.Close()

	spec := client.QueueSpec{Settings: map[string]string{"max-deliveries": "8"}}
	if _, err := c.CreateQueue(ctx, "images", spec); err != nil && !errors.Is(err, client.ErrTopicExists) {
		return err
	}
	for _, name := range []string{"cat.png", "dog.png"} {
		sent, err := c.SendMessages(ctx, "images", client.OutgoingMessage{Value: &name})
		if err != nil {
			return err
		}
		fmt.Printf("sent %s: %v\n", name, sent[0].Code == "")
	}

	// Work runs the function for up to four jobs at once, and extends their leases. After an error the
	// job comes again. Without UntilEmpty it would wait for more.
	o := client.WorkOptions{UntilEmpty: true, OnError: func(err error) { log.Print(err) }}
	return c.Work(ctx, "images", o, func(ctx context.Context, m *client.LeasedMessage) error {
		fmt.Printf("resized %s, delivery %d\n", m.Value, m.Deliveries)
		return nil
	})
}
