// Command sqs sends and receives messages with aws-sdk-go-v2 beside a broker that is killed.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go/transport/http"
)

var (
	ctx        = context.Background()
	numbers, _ = strconv.Atoi(os.Getenv("NUMBERS"))
	api        = sqs.New(sqs.Options{
		BaseEndpoint: aws.String(os.Getenv("ENDPOINT")), Region: os.Getenv("AWS_REGION"),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY")}, nil
		}),
	})
	mu   sync.Mutex // guards done, and the output
	done = map[string]bool{}
)

func say(words ...any) {
	mu.Lock()
	defer mu.Unlock()
	if words[0] == "done" {
		done[words[1].(string)] = true
	}
	fmt.Println(words...)
}

func finished() bool {
	mu.Lock()
	defer mu.Unlock()
	return len(done) == numbers
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return v
}

// again repeats a call until the broker has answered it.
func again[In, Out any](call func(context.Context, *In, ...func(*sqs.Options)) (*Out, error), in *In) *Out {
	for {
		out, err := call(ctx, in)
		var answer *http.ResponseError
		if err == nil || errors.As(err, &answer) && answer.HTTPStatusCode() > 0 && answer.HTTPStatusCode() < 500 {
			return must(out, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func one(url *string) types.Message {
	out := must(api.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: url, WaitTimeSeconds: 5, MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	}))
	if len(out.Messages) != 1 {
		log.Panicf("%d messages, want 1", len(out.Messages))
	}
	return out.Messages[0]
}

func tour(name string) *string {
	url := must(api.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String(name + ".fifo"), Attributes: map[string]string{
		"FifoQueue": "true", "ContentBasedDeduplication": "true",
	}})).QueueUrl
	for _, body := range []string{"1", "1", "2"} {
		must(api.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String(body), MessageGroupId: aws.String("g")}))
	}
	for _, body := range []string{"1", "2"} {
		m := one(url)
		if *m.Body != body || m.Attributes["MessageGroupId"] != "g" {
			log.Panicf("got %+v, want body %s", m, body)
		}
		must(api.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle}))
	}
	url = must(api.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: map[string]string{"VisibilityTimeout": "30"}})).QueueUrl
	binary := []byte{0, 255}
	must(api.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String("<ü>"), MessageAttributes: map[string]types.MessageAttributeValue{
		"n": {DataType: aws.String("Number.int"), StringValue: aws.String("7")}, "b": {DataType: aws.String("Binary"), BinaryValue: binary},
	}}))
	m := one(url)
	if *m.Body != "<ü>" || *m.MessageAttributes["n"].StringValue != "7" || !bytes.Equal(m.MessageAttributes["b"].BinaryValue, binary) {
		log.Panicf("got %+v", m)
	}
	must(api.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle}))
	if m = one(url); m.Attributes["ApproximateReceiveCount"] != "2" {
		log.Panicf("got %+v", m)
	}
	must(api.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: url, Entries: []types.DeleteMessageBatchRequestEntry{
		{Id: aws.String("a"), ReceiptHandle: m.ReceiptHandle},
	}}))
	must(api.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: url, Attributes: map[string]string{"VisibilityTimeout": "5"}}))
	var missing *types.QueueDoesNotExist
	if _, err := api.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("missing")}); !errors.As(err, &missing) {
		log.Panicf("a queue that does not exist: %v", err)
	}
	say("tour")
	return url
}

func send(url *string) {
	for first := 0; first < numbers; first += 10 {
		in := &sqs.SendMessageBatchInput{QueueUrl: url}
		for n := first; n < first+10; n++ {
			text := aws.String(strconv.Itoa(n))
			in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{Id: text, MessageBody: text})
		}
		for _, m := range again(api.SendMessageBatch, in).Successful {
			say("sent", *m.Id, *m.MessageId)
		}
	}
}

func receive(url *string, name int) {
	for !finished() {
		say("ask", name)
		for _, m := range again(api.ReceiveMessage, &sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 10, WaitTimeSeconds: 1}).Messages {
			say("got", *m.Body, *m.MessageId, name)
			again(api.DeleteMessage, &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle})
			say("done", *m.Body, *m.MessageId)
		}
	}
}

func main() {
	url := tour(os.Getenv("QUEUE"))
	var busy sync.WaitGroup
	busy.Go(func() { send(url) })
	for name := range 3 {
		busy.Go(func() { receive(url, name) })
	}
	busy.Wait()
}
