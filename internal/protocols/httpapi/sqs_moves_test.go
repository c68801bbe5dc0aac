package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestSQSMoveTasks: dead letters keep the ID of their message, and a task moves them to a queue or back.
func TestSQSMoveTasks(t *testing.T) {
	s := start(t)
	c := newSQS(s, "mailer")
	const arn = "arn:aws:sqs:eu-west-1:000000000000:"
	c.call("CreateQueue", `{"QueueName":"dead"}`)
	c.call("CreateQueue", `{"QueueName":"other"}`)
	c.call("CreateQueue", `{"QueueName":"q","Attributes":{"RedrivePolicy":"{\"deadLetterTargetArn\":\"`+arn+`dead\",\"maxReceiveCount\":1}"}}`)
	type received struct{ Messages []map[string]any }
	receive := func(queue string) (out received) {
		t.Helper()
		a := c.call("ReceiveMessage", `{"QueueUrl":"Q/`+queue+`","AttributeNames":["All"],"VisibilityTimeout":0,"WaitTimeSeconds":1}`)
		must.NoErrorf(t, json.Unmarshal(a.body, &out), "%s", a)
		return out
	}
	task := func() (status string, moved float64) {
		var out struct{ Results []map[string]any }
		a := c.call("ListMessageMoveTasks", `{"SourceArn":"`+arn+`dead"}`)
		must.NoErrorf(t, json.Unmarshal(a.body, &out), "%s", a)
		return out.Results[0]["Status"].(string), out.Results[0]["ApproximateNumberOfMessagesMoved"].(float64)
	}
	c.call("SendMessage", `{"QueueUrl":"Q/q","MessageBody":"x"}`)
	first := receive("q").Messages
	sebtest.Eventually(t, "a dead letter", func() bool { return s.queue("dead").Ready == 1 })
	letter := receive("dead").Messages[0]
	check.Equal(t, letter["MessageId"], first[0]["MessageId"])
	attrs := letter["Attributes"].(map[string]any)
	check.Equal(t, attrs["ApproximateReceiveCount"], any("2"))
	check.Equal(t, attrs["DeadLetterQueueSourceArn"], any(arn+"q"))
	for body, want := range map[string]string{
		`{}`: "MissingParameter", `{"SourceArn":"` + arn + `none"}`: "ResourceNotFoundException", `{"SourceArn":"` + arn + `other"}`: "InvalidParameterValue",
		`{"SourceArn":"` + arn + `dead","DestinationArn":"` + arn + `none"}`: "ResourceNotFoundException", `{"SourceArn":"x"}`: "InvalidParameterValue", `{"SourceArn":"arn:aws:sqs:eu-west-1:123456789012:dead"}`: "ResourceNotFoundException",
	} {
		check.Equalf(t, c.call("StartMessageMoveTask", body).header.Get("X-Amzn-Query-Error"), want+";Sender", "%s", body)
	}
	sebtest.Eventually(t, "the lease of the letter is over", func() bool { return s.queue("dead").Ready == 1 })
	must.Equal(t, c.call("StartMessageMoveTask", `{"SourceArn":"`+arn+`dead","DestinationArn":"`+arn+`other"}`).status, 200)
	sebtest.Eventually(t, "the task is completed", func() bool { status, moved := task(); return status == "COMPLETED" && moved == 1 })
	check.Equal(t, receive("other").Messages[0]["Body"], any("x"))

	for range 3 {
		c.call("SendMessage", `{"QueueUrl":"Q/dead","MessageBody":"y"}`)
	}
	sebtest.Eventually(t, "three messages", func() bool { return s.queue("dead").Ready == 3 })
	a := c.call("StartMessageMoveTask", `{"SourceArn":"`+arn+`dead","DestinationArn":"`+arn+`other","MaxNumberOfMessagesPerSecond":1}`)
	if b := c.call("StartMessageMoveTask", `{"SourceArn":"`+arn+`dead"}`); !strings.Contains(string(b.body), "already a task running") {
		t.Errorf("a second task: %s", b)
	}
	sebtest.Eventually(t, "one is moved", func() bool { _, moved := task(); return moved >= 1 })
	if b := c.call("CancelMessageMoveTask", string(a.body)); b.status != 200 {
		t.Errorf("cancel: %s", b)
	}
	sebtest.Eventually(t, "the task is cancelled", func() bool { status, _ := task(); return status == "CANCELLED" })
	c.call("StartMessageMoveTask", `{"SourceArn":"`+arn+`dead","DestinationArn":"`+arn+`other","MaxNumberOfMessagesPerSecond":1}`)
	c.call("DeleteQueue", `{"QueueUrl":"Q/other"}`)
	sebtest.Eventually(t, "the task has failed", func() bool { status, _ := task(); return status == "FAILED" })
	if b := c.call("ListMessageMoveTasks", `{"SourceArn":"`+arn+`dead"}`); !strings.Contains(string(b.body), `"FailureReason":"AWS.SimpleQueueService.NonExistentQueue"`) {
		t.Errorf("a task whose target is deleted: %s", b)
	}
	check.Equal(t, c.call("CancelMessageMoveTask", `{"TaskHandle":"x"}`).header.Get("X-Amzn-Query-Error"), "InvalidParameterValue;Sender")
}

// TestSQSGroups: a receive has the messages of a group one after the other, up to the first that a worker has, and
// groups that come again are the last ones.
func TestSQSGroups(t *testing.T) {
	s := start(t)
	c := newSQS(s, "mailer")
	c.call("CreateQueue", `{"QueueName":"q.fifo","Attributes":{"FifoQueue":"true","ContentBasedDeduplication":"True"}}`)
	var entries []string // of one batch, so that the keys of all are known at the same time
	for _, m := range []string{"a1", "b1", "a2", "a3", "b2"} {
		entries = append(entries, `{"Id":"`+m+`","MessageBody":"`+m+`","MessageGroupId":"`+m[:1]+`"}`)
	}
	check.Equal(t, c.call("SendMessageBatch", `{"QueueUrl":"Q/q.fifo","Entries":[`+strings.Join(entries, ",")+`]}`).status, 200)
	receive := func(most string) (bodies string, handles []string) {
		t.Helper()
		var out struct {
			Messages []struct{ Body, ReceiptHandle string }
		}
		must.NoError(t, json.Unmarshal(c.call("ReceiveMessage", `{"QueueUrl":"Q/q.fifo","MaxNumberOfMessages":`+most+`}`).body, &out))
		for _, m := range out.Messages {
			bodies, handles = bodies+m.Body+" ", append(handles, m.ReceiptHandle)
		}
		return bodies, handles
	}
	some, handles := receive("2")
	check.Equal(t, some, "a1 a2 ")
	others, _ := receive("2")
	check.Equal(t, others, "b1 b2 ")
	none, _ := receive("10")
	check.Equal(t, none, "")
	check.Equal(t, c.call("SendMessage", `{"QueueUrl":"Q/q.fifo","MessageBody":"c1","MessageGroupId":"c"}`).status, 200)
	check.Equal(t, c.call("ChangeMessageVisibility", `{"QueueUrl":"Q/q.fifo","ReceiptHandle":"`+handles[0]+`","VisibilityTimeout":0}`).status, 200)
	again, _ := receive("10")
	check.Equal(t, again, "c1 a1 ")
	check.Equal(t, c.call("DeleteMessage", `{"QueueUrl":"Q/q.fifo","ReceiptHandle":"`+handles[1]+`"}`).status, 200)
	none, _ = receive("10")
	check.Equal(t, none, "")
}

// TestSQSPurge: after a purge of a FIFO queue a message with the same dedup ID can be sent again.
func TestSQSPurge(t *testing.T) {
	s := start(t)
	c := newSQS(s, "mailer")
	c.call("CreateQueue", `{"QueueName":"q.fifo","Attributes":{"FifoQueue":"true"},"tags":{"a":"b"}}`)
	send := func(body string) {
		t.Helper()
		check.Equal(t, c.call("SendMessage", `{"QueueUrl":"Q/q.fifo","MessageBody":"`+body+`","MessageGroupId":"g","MessageDeduplicationId":"d"}`).status, 200)
	}
	receive := func() string {
		t.Helper()
		return string(c.call("ReceiveMessage", `{"QueueUrl":"Q/q.fifo"}`).body)
	}
	send("one")
	send("again")
	check.Equal(t, c.call("PurgeQueue", `{"QueueUrl":"Q/q.fifo"}`).stable(), "200  {}")
	check.Equal(t, receive(), "{}")
	send("two")
	send("three")
	if got := receive(); !strings.Contains(got, `"Body":"two"`) {
		t.Errorf("received %s, want two", got)
	}
	check.Equal(t, c.call("ListQueueTags", `{"QueueUrl":"Q/q.fifo"}`).stable(), `200  {"Tags":{"a":"b"}}`)
}
