package queues

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/sebbroker/seb/client"
)

// sqs uses the SQS API in JSON, without the SDK of AWS, which would check and retry as well.
type sqs struct {
	*caller
	c            *Config
	address, url string
}

// region is that of all signatures.
const region = "us-east-1"

// openElastic returns a client without signatures, which ElasticMQ does not verify.
func openElastic(ctx context.Context, c *Config) (Client, error) {
	return openSQS(ctx, c, newCaller())
}

// openSebSQS returns a client that signs with a pair of Seb.
func openSebSQS(ctx context.Context, c *Config) (Client, error) {
	t := c.target("seb")
	key, err := os.ReadFile(t.Options["key-file"])
	if err != nil {
		return nil, err
	}
	seb, err := client.New(t.Address, client.Options{APIKey: strings.TrimSpace(string(key))})
	if err != nil {
		return nil, err
	}
	defer seb.Close()
	all := []string{"*"}
	if _, err := seb.CreateToken(ctx, client.TokenSpec{ID: c.Name, Scopes: client.Scopes{Read: all, Write: all, Admin: all, Groups: all}}); err != nil {
		return nil, err
	}
	pair, err := seb.SigningPair(ctx, c.Name)
	if err != nil {
		return nil, err
	}
	signed, signer := newCaller(), v4.NewSigner()
	signed.sign = func(req *http.Request, body []byte) error {
		hash := sha256.Sum256(body)
		return signer.SignHTTP(req.Context(), aws.Credentials{AccessKeyID: pair.AccessKeyID, SecretAccessKey: pair.SecretAccessKey}, req,
			hex.EncodeToString(hash[:]), "sqs", region, time.Now())
	}
	return openSQS(ctx, c, signed)
}

func openSQS(ctx context.Context, c *Config, by *caller) (Client, error) {
	e := &sqs{caller: by, c: c, address: c.target("sqs").Address}
	e.header.Set("Content-Type", "application/x-amz-json-1.0")
	var made struct{ QueueUrl string }
	err := e.action(ctx, "CreateQueue", map[string]any{"QueueName": c.Name}, &made)
	e.url = made.QueueUrl
	return e, err
}

func (e *sqs) action(ctx context.Context, name string, in, out any) error {
	return e.call(ctx, "POST", e.address+"/", map[string]string{"X-Amz-Target": "AmazonSQS." + name}, in, out)
}

func (e *sqs) Processes() []int { return nil }

func (e *sqs) Sender(context.Context) (Sender, error) { return e, nil }

type sqsEntry struct {
	Id            string
	MessageBody   string `json:",omitempty"`
	ReceiptHandle string `json:",omitempty"`
}

type sqsResults struct {
	Successful []struct{ Id string }
	Failed     []struct{ Code, Message string }
}

func (r *sqsResults) check(n int) error {
	if len(r.Successful) != n {
		return fmt.Errorf("%d of %d messages, %+v", len(r.Successful), n, r.Failed)
	}
	return nil
}

// Send implements Sender.
func (e *sqs) Send(ctx context.Context, messages [][]byte) error {
	if len(messages) == 1 {
		return e.action(ctx, "SendMessage", map[string]any{"QueueUrl": e.url, "MessageBody": string(messages[0])}, new(struct{}))
	}
	list := make([]sqsEntry, len(messages))
	for i, m := range messages {
		list[i] = sqsEntry{Id: strconv.Itoa(i), MessageBody: string(m)}
	}
	var results sqsResults
	err := e.action(ctx, "SendMessageBatch", map[string]any{"QueueUrl": e.url, "Entries": list}, &results)
	return errors.Join(err, results.check(len(list)))
}

func (e *sqs) Work(ctx context.Context, l Listener) error {
	return each(ctx, e.c.Workers, func(ctx context.Context, _ int) error {
		for ctx.Err() == nil {
			var got struct {
				Messages []struct{ Body, ReceiptHandle string }
			}
			in := map[string]any{"QueueUrl": e.url, "MaxNumberOfMessages": e.c.Batch, "WaitTimeSeconds": int(waitMax / time.Second)}
			if err := e.action(ctx, "ReceiveMessage", in, &got); err != nil {
				return err
			}
			if len(got.Messages) == 0 {
				continue
			}
			list := make([]sqsEntry, len(got.Messages))
			for i, m := range got.Messages {
				l.Begin([]byte(m.Body), Now())
				list[i] = sqsEntry{Id: strconv.Itoa(i), ReceiptHandle: m.ReceiptHandle}
			}
			if err := e.remove(context.WithoutCancel(ctx), list); err != nil {
				return err
			}
			l.Settled(len(list))
		}
		return nil
	})
}

func (e *sqs) remove(ctx context.Context, list []sqsEntry) error {
	if len(list) == 1 {
		return e.action(ctx, "DeleteMessage", map[string]any{"QueueUrl": e.url, "ReceiptHandle": list[0].ReceiptHandle}, nil)
	}
	var results sqsResults
	err := e.action(ctx, "DeleteMessageBatch", map[string]any{"QueueUrl": e.url, "Entries": list}, &results)
	return errors.Join(err, results.check(len(list)))
}
