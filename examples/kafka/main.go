// Command kafka writes two records to a Seb broker with a Kafka client and reads them as a member of a
// consumer group.
//
//	BROKER=localhost:9092 KEY=$(cat seb-data/api-key) go run ./examples/kafka
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func main() {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Getenv("BROKER")),
		kgo.SASL(scram.Auth{User: "seb", Pass: os.Getenv("KEY")}.AsSha512Mechanism()),
		kgo.AllowAutoTopicCreation(),
		kgo.ConsumerGroup("gardeners"), kgo.ConsumeTopics("plants"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()

	err = client.ProduceSync(ctx,
		&kgo.Record{Topic: "plants", Key: []byte("rose"), Value: []byte("red")},
		&kgo.Record{Topic: "plants", Key: []byte("lily"), Value: []byte("white")},
	).FirstErr()
	if err != nil {
		log.Fatal(err)
	}

	for left := 2; left > 0; {
		records := client.PollRecords(ctx, left)
		if err := records.Err(); err != nil {
			log.Fatal(err)
		}
		records.EachRecord(func(r *kgo.Record) {
			fmt.Printf("%s is %s at %d\n", r.Key, r.Value, r.Offset)
			left--
		})
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		log.Fatal(err)
	}
}
