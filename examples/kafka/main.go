// Command kafka writes two records to a Seb broker with a Kafka client and reads them as a member of a
// consumer group. $BROKER is the address of another broker than localhost:9092.
//
//	KEY=$(cat seb-data/api-key) go run ./examples/kafka
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, cmp.Or(os.Getenv("BROKER"), "localhost:9092"), os.Getenv("KEY")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, broker, key string) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(broker),
		kgo.SASL(scram.Auth{User: "seb", Pass: key}.AsSha512Mechanism()),
		kgo.AllowAutoTopicCreation(),
		kgo.ConsumerGroup("gardeners"), kgo.ConsumeTopics("plants"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
	)
	if err != nil {
		return err
	}
	defer client.Close()

	// The other calls retry until ctx ends, also without a broker or with a wrong key.
	if err := client.Ping(ctx); err != nil {
		return fmt.Errorf("no connection to %s with the API key in $KEY: %w", broker, err)
	}
	err = client.ProduceSync(ctx,
		&kgo.Record{Topic: "plants", Key: []byte("rose"), Value: []byte("red")},
		&kgo.Record{Topic: "plants", Key: []byte("lily"), Value: []byte("white")},
	).FirstErr()
	if err != nil {
		return fmt.Errorf("produce: %w", err)
	}

	for left := 2; left > 0; {
		records := client.PollRecords(ctx, left)
		if err := records.Err(); err != nil {
			return fmt.Errorf("consume: %w", err)
		}
		records.EachRecord(func(r *kgo.Record) {
			fmt.Printf("%s is %s at %d\n", r.Key, r.Value, r.Offset)
			left--
		})
	}
	return client.CommitUncommittedOffsets(ctx)
}
