// Command http creates a topic, writes records to a broker over HTTP, and reads them for a consumer
// group.
//
//	SEB_API_KEY=$(cat seb-data/api-key) go run ./examples/http
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
	"github.com/sebbroker/seb/record"
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

	spec := client.TopicSpec{Partitions: 4, Settings: map[string]string{"retention-time": "7d"}}
	if _, err := c.CreateTopic(ctx, "orders", spec); err != nil && !errors.Is(err, client.ErrTopicExists) {
		return err
	}

	// Records with the same key go to the same partition and keep their order.
	_, err = c.Produce(ctx, "orders", []record.Record{
		{Key: []byte("4711"), Value: []byte("placed")},
		{Key: []byte("4711"), Value: []byte("paid")},
	}, client.ProduceOptions{})
	switch {
	case errors.Is(err, client.ErrOutcomeUnknown):
		return fmt.Errorf("the records may appear once or never: %w", err)
	case err != nil:
		return fmt.Errorf("the records are not stored: %w", err)
	}

	// The consumer continues at the committed offsets of the group and commits once a second.
	// With Follow it would wait for new records at the end.
	consumer, err := c.Consumer(ctx, "billing", "orders", client.ConsumerOptions{})
	if err != nil {
		return err
	}
	for message, err := range consumer.Records(ctx) {
		if err != nil {
			return err
		}
		fmt.Printf("order %s was %s\n", message.Key, message.Value)
	}
	return consumer.Close(ctx) // commits
}
