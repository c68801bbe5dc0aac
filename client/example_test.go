package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
)

func Example() {
	address, stop := startBroker() // normally: seb serve
	defer stop()
	ctx := context.Background()

	c, err := client.New(address, client.Options{APIKey: "secret"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	_, err = c.Produce(ctx, "orders", []record.Record{
		{Key: []byte("4711"), Value: []byte("placed")},
		{Key: []byte("4711"), Value: []byte("paid")},
	}, client.ProduceOptions{})
	switch {
	case errors.Is(err, client.ErrOutcomeUnknown):
		log.Fatal("maybe stored: look before sending again")
	case err != nil:
		log.Fatal("not stored, and never will be: ", err)
	}

	for r, err := range c.Records(ctx, "orders", client.ReadOptions{Offset: client.Earliest}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d: order %s was %s\n", r.Offset, r.Key, r.Value)
	}
	// Output:
	// 0: order 4711 was placed
	// 1: order 4711 was paid
}

func ExampleClient_CreateTopic() {
	address, stop := startBroker()
	defer stop()
	c, err := client.New(address, client.Options{APIKey: "secret"})
	if err != nil {
		log.Fatal(err)
	}
	spec := client.TopicSpec{Partitions: 4, Settings: map[string]string{"retention-time": "7d"}}
	t, err := c.CreateTopic(context.Background(), "orders", spec)
	if err != nil && !errors.Is(err, client.ErrTopicExists) {
		log.Fatal(err)
	}
	fmt.Println(t.Name, len(t.Partitions))
	// Output: orders 4
}
