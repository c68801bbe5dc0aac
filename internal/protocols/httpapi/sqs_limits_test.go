package httpapi

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// sqsFault is an error of AWS: its status, its type in JSON, and its code in the Query protocol.
type sqsFault struct {
	status     int
	kind, code string
}

// sqsFaultOf reads an error in either protocol, and checks its form.
func sqsFaultOf(t *testing.T, a *answered, query bool) (f sqsFault) {
	t.Helper()
	f.status = a.status
	id := a.header.Get("X-Amzn-Requestid")
	if !query {
		var out struct {
			Type    string `json:"__type"`
			Message string `json:"message"`
		}
		check.NoErrorf(t, json.Unmarshal(a.body, &out), "%s", a)
		f.kind = strings.TrimPrefix(out.Type, "com.amazonaws.sqs#")
		var sender bool
		f.code, sender = strings.CutSuffix(a.header.Get("X-Amzn-Query-Error"), ";Sender")
		if !sender || out.Message == "" || id == "" || a.header.Get("Content-Type") != "application/x-amz-json-1.0" {
			t.Errorf("the form of an error: %v %s", a.header, a)
		}
		return f
	}
	var out struct {
		XMLName xml.Name `xml:"http://queue.amazonaws.com/doc/2012-11-05/ ErrorResponse"`
		Error   struct {
			Type, Code, Message string
			Detail              *struct{}
		}
		RequestID string `xml:"RequestId"`
	}
	check.NoErrorf(t, xml.Unmarshal(a.body, &out), "%s", a)
	f.code = out.Error.Code
	if e := &out.Error; e.Type != "Sender" || e.Message == "" || e.Detail == nil || out.RequestID != id || id == "" || a.header.Get("Content-Type") != "text/xml" {
		t.Errorf("the form of an error: %v %s", a.header, a)
	}
	return f
}

// queryOf returns the parameters of a call in JSON as the Query protocol has them: lists are flat, and have the name
// of their element.
func queryOf(action string, in map[string]any) url.Values {
	elements := map[string]string{
		"Entries": action + "RequestEntry", "Attributes": "Attribute", "Tags": "Tag", "tags": "Tag", "TagKeys": "TagKey",
		"AttributeNames": "AttributeName", "MessageAttributes": "MessageAttribute", "MessageSystemAttributes": "MessageSystemAttribute",
	}
	out := url.Values{"Action": {action}}
	var add func(prefix string, v any)
	add = func(prefix string, v any) {
		switch v := v.(type) {
		case []any:
			for i := range v {
				add(prefix+"."+strconv.Itoa(i+1), v[i])
			}
		case map[string]any:
			key := map[bool]string{true: "Key", false: "Name"}[strings.HasSuffix(prefix, "Tag")]
			if !strings.HasSuffix(prefix, "Attribute") && key == "Name" {
				for name, v := range v {
					if e := elements[name]; e != "" {
						name = e
					}
					add(strings.TrimPrefix(prefix+"."+name, "."), v)
				}
				return
			}
			for i, name := range slices.Sorted(maps.Keys(v)) {
				at := prefix + "." + strconv.Itoa(i+1) + "."
				out.Set(at+key, name)
				add(at+"Value", v[name])
			}
		case float64:
			out.Set(prefix, strconv.FormatFloat(v, 'f', -1, 64))
		default:
			out.Set(prefix, fmt.Sprint(v))
		}
	}
	add("", in)
	return out
}

// both makes a call in both protocols.
func (c *sqsClient) both(action, body string, each func(name string, a *answered, query bool)) {
	c.s.t.Helper()
	each("json "+action, c.call(action, body), false)
	var in map[string]any
	must.NoErrorf(c.s.t, json.Unmarshal([]byte(strings.ReplaceAll(body, "Q/", "http://"+c.s.addr+"/000000000000/")), &in), "%s", body)
	each("query "+action, c.query("/", queryOf(action, in).Encode()), true)
}

// receipt sends a message and receives it.
func (c *sqsClient) receipt(queue, more string) string {
	c.s.t.Helper()
	must.Equal(c.s.t, c.call("SendMessage", `{"QueueUrl":"Q/`+queue+`","MessageBody":"x"`+more+`}`).status, 200)
	var out struct {
		Messages []struct{ ReceiptHandle string }
	}
	must.NoError(c.s.t, json.Unmarshal(c.call("ReceiveMessage", `{"QueueUrl":"Q/`+queue+`","WaitTimeSeconds":5}`).body, &out))
	must.Equal(c.s.t, len(out.Messages), 1)
	return out.Messages[0].ReceiptHandle
}

// entriesOf are n entries of a batch.
func entriesOf(n int, entry string) string {
	var list []string
	for i := range n {
		list = append(list, strings.ReplaceAll(entry, "#", strconv.Itoa(i)))
	}
	return `"Entries":[` + strings.Join(list, ",") + `]`
}

// The types of errors that several cases have, with their codes.
var (
	badValue     = sqsFault{400, "InvalidParameterValueException", "InvalidParameterValue"}
	missing      = sqsFault{400, "MissingRequiredParameterException", "MissingParameter"}
	badContents  = sqsFault{400, "InvalidMessageContents", "InvalidMessageContents"}
	badReceipt   = sqsFault{404, "ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid"}
	badName      = sqsFault{400, "InvalidAttributeName", "InvalidAttributeName"}
	badAttribute = sqsFault{400, "InvalidAttributeValue", "InvalidAttributeValue"}
	noQueue      = sqsFault{400, "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"}
	badEntryID   = sqsFault{400, "InvalidBatchEntryId", "AWS.SimpleQueueService.InvalidBatchEntryId"}
	noResource   = sqsFault{404, "ResourceNotFoundException", "ResourceNotFoundException"}
	badText      = sqsFault{400, "SerializationException", "MalformedInput"}
	badSignature = sqsFault{403, "InvalidSignatureException", "SignatureDoesNotMatch"}
)

// TestSQSLimits: a call beyond a limit of the API reference has the error that AWS documents or answers, in both
// protocols.
func TestSQSLimits(t *testing.T) {
	s := start(t)
	c := newSQS(s, "mailer")
	c.call("CreateQueue", `{"QueueName":"q"}`)
	c.call("CreateQueue", `{"QueueName":"other"}`)
	c.call("CreateQueue", `{"QueueName":"small","Attributes":{"MaximumMessageSize":"1024"}}`)
	c.call("CreateQueue", `{"QueueName":"q.fifo","Attributes":{"FifoQueue":"true"}}`)
	foreign := c.receipt("other", "")
	for _, x := range slices.Concat(sendLimits(), receiveLimits(foreign), queueLimits(), batchLimits()) {
		c.both(x.action, x.body, func(name string, a *answered, query bool) {
			want := x.want
			if query {
				want.kind = ""
			}
			check.Equalf(t, sqsFaultOf(t, a, query), want, "%s %.200s", name, x.body)
		})
	}
	if n := s.queue("q").Sent + s.queue("q.fifo").Sent + s.queue("small").Sent; n != 0 {
		t.Errorf("%d messages were sent", n)
	}
	must.Equal(t, c.call("DeleteMessage", `{"QueueUrl":"Q/other","ReceiptHandle":"`+foreign+`"}`).status, 200)
	check.Equal(t, s.queue("other").Leased, 0)
}

// sqsLimit is a call that is refused.
type sqsLimit struct {
	action, body string
	want         sqsFault
}

// xs is a text of n letters.
func xs(n int) string { return strings.Repeat("x", n) }

func sendLimits() []sqsLimit {
	const send = `{"QueueUrl":"Q/q","MessageBody":"x",`
	const ordered = `{"QueueUrl":"Q/q.fifo","MessageBody":"x",`
	attribute := func(name, kind, v string) string {
		return send + `"MessageAttributes":{"` + name + `":{"DataType":"` + kind + `","StringValue":"` + v + `"}}}`
	}
	return []sqsLimit{
		{"SendMessage", send + `"DelaySeconds":901}`, badValue},
		{"SendMessage", send + `"DelaySeconds":-1}`, badValue},
		{"SendMessage", send + `"MessageDeduplicationId":"x"}`, badValue},
		{"SendMessage", send + `"MessageGroupId":"` + xs(129) + `"}`, badValue},
		{"SendMessage", send + `"MessageGroupId":"ü"}`, badValue},
		{"SendMessage", send + `"MessageSystemAttributes":{"Other":{"DataType":"String","StringValue":"x"}}}`, badValue},
		{"SendMessage", ordered + `"MessageGroupId":"g","MessageDeduplicationId":"d","DelaySeconds":1}`, badValue},
		{"SendMessage", ordered + `"MessageDeduplicationId":"d"}`, missing},
		{"SendMessage", ordered + `"MessageGroupId":"g"}`, badValue},
		{"SendMessage", ordered + `"MessageGroupId":"g","MessageDeduplicationId":"` + xs(129) + `"}`, badValue},
		{"SendMessage", ordered + `"MessageGroupId":"","MessageDeduplicationId":"d"}`, badValue},
		{"SendMessage", `{"QueueUrl":"Q/q","MessageBody":"` + xs(1<<20+1) + `"}`, badValue},
		{"SendMessage", `{"QueueUrl":"Q/small","MessageBody":"` + xs(1025) + `"}`, badValue},
		{"SendMessage", `{"QueueUrl":"Q/small","MessageBody":"` + xs(1010) + `","MessageAttributes":{"name":{"DataType":"String","StringValue":"value"}}}`, badValue},
		{"SendMessage", `{"QueueUrl":"Q/q","MessageBody":"\u0001"}`, badContents},
		{"SendMessage", `{"QueueUrl":"Q/q","MessageBody":"\uffff"}`, badContents},
		{"SendMessage", `{"QueueUrl":"Q/q","MessageBody":""}`, missing},
		{"SendMessage", `{"QueueUrl":"Q/q"}`, missing},
		{"SendMessage", attribute(xs(257), "String", "x"), badValue},
		{"SendMessage", attribute("AWS.x", "String", "x"), badValue},
		{"SendMessage", attribute("a b", "String", "x"), badValue},
		{"SendMessage", attribute("n", "Number", "x"), badValue},
		{"SendMessage", attribute("n", "Other", "x"), badValue},
		{"SendMessage", attribute("n", "String", ""), badValue},
		{"SendMessage", attribute("n", "", "x"), badValue},
		{"SendMessage", send + `"MessageAttributes":{` + attributesOf(11) + `}}`, badValue},
		{"SendMessageBatch", `{"QueueUrl":"Q/q",` + entriesOf(2, `{"Id":"#","MessageBody":"`+xs(600_000)+`"}`) + `}`, sqsFault{400, "BatchRequestTooLong", "AWS.SimpleQueueService.BatchRequestTooLong"}},
	}
}

func receiveLimits(foreign string) []sqsLimit {
	return []sqsLimit{
		{"ReceiveMessage", `{"QueueUrl":"Q/q","MaxNumberOfMessages":11}`, badValue},
		{"ReceiveMessage", `{"QueueUrl":"Q/q","MaxNumberOfMessages":0}`, badValue},
		{"ReceiveMessage", `{"QueueUrl":"Q/q","WaitTimeSeconds":21}`, badValue},
		{"ReceiveMessage", `{"QueueUrl":"Q/q","WaitTimeSeconds":-1}`, badValue},
		{"ReceiveMessage", `{"QueueUrl":"Q/q","VisibilityTimeout":43201}`, badValue},
		{"ReceiveMessage", `{"QueueUrl":"Q/q","ReceiveRequestAttemptId":"x"}`, badValue},
		{"ReceiveMessage", `{"QueueUrl":"Q/q.fifo","ReceiveRequestAttemptId":"` + xs(129) + `"}`, badValue},
		{"ChangeMessageVisibility", `{"QueueUrl":"Q/q","ReceiptHandle":"` + foreign + `","VisibilityTimeout":1}`, badReceipt},
		{"ChangeMessageVisibility", `{"QueueUrl":"Q/q","ReceiptHandle":"x","VisibilityTimeout":43201}`, badValue},
		{"ChangeMessageVisibility", `{"QueueUrl":"Q/q","ReceiptHandle":"x","VisibilityTimeout":-1}`, badValue},
		{"ChangeMessageVisibility", `{"QueueUrl":"Q/q","ReceiptHandle":"x"}`, missing},
		{"ChangeMessageVisibility", `{"QueueUrl":"Q/q","VisibilityTimeout":1}`, missing},
		{"DeleteMessage", `{"QueueUrl":"Q/q","ReceiptHandle":"` + foreign + `"}`, badReceipt},
		{"DeleteMessage", `{"QueueUrl":"Q/q","ReceiptHandle":"` + xs(10_000) + `"}`, badReceipt},
		{"DeleteMessage", `{"QueueUrl":"Q/q","ReceiptHandle":""}`, badReceipt},
		{"DeleteMessage", `{"QueueUrl":"Q/q"}`, missing},
	}
}

func queueLimits() []sqsLimit {
	return []sqsLimit{
		{"CreateQueue", `{"QueueName":"` + xs(81) + `"}`, badValue},
		{"CreateQueue", `{"QueueName":"a b"}`, badValue},
		{"CreateQueue", `{"QueueName":"x.fifo"}`, badValue},
		{"CreateQueue", `{"QueueName":"x","Attributes":{"FifoQueue":"true"}}`, badValue},
		{"CreateQueue", `{"QueueName":"x","Attributes":{"FifoQueue":"false"}}`, badName},
		{"CreateQueue", `{"QueueName":"x","Attributes":{"Other":"1"}}`, badName},
		{"CreateQueue", `{"QueueName":"x","Attributes":{"DelaySeconds":"901"}}`, badAttribute},
		{"CreateQueue", `{"QueueName":"x","Attributes":{"MaximumMessageSize":"1048577"}}`, badAttribute},
		{"CreateQueue", `{"QueueName":"x","Attributes":{"MaximumMessageSize":"1023"}}`, badAttribute},
		{"CreateQueue", `{"QueueName":"x","Attributes":{"MessageRetentionPeriod":"59"}}`, badAttribute},
		{"CreateQueue", `{"QueueName":"x","Attributes":{"MessageRetentionPeriod":"1209601"}}`, badAttribute},
		{"CreateQueue", `{"QueueName":"x","Attributes":{"ReceiveMessageWaitTimeSeconds":"21"}}`, badAttribute},
		{"CreateQueue", `{"QueueName":"x","Attributes":{"VisibilityTimeout":"43201"}}`, badAttribute},
		{"CreateQueue", `{"QueueName":"x","Attributes":{"RedrivePolicy":"{}"}}`, badValue},
		{"CreateQueue", `{"QueueName":"x","tags":{"` + xs(129) + `":""}}`, badValue},
		{"CreateQueue", `{"QueueName":"q","Attributes":{"DelaySeconds":"1"}}`, sqsFault{400, "QueueNameExists", "QueueAlreadyExists"}},
		{"CreateQueue", `{}`, missing},
		{"SetQueueAttributes", `{"QueueUrl":"Q/q","Attributes":{"QueueArn":"x"}}`, badName},
		{"SetQueueAttributes", `{"QueueUrl":"Q/q","Attributes":{"VisibilityTimeout":"x"}}`, badAttribute},
		{"SetQueueAttributes", `{"QueueUrl":"Q/q"}`, missing},
		{"GetQueueAttributes", `{"QueueUrl":"Q/q","AttributeNames":["Other"]}`, badName},
		{"GetQueueAttributes", `{"QueueUrl":"Q/none","AttributeNames":["All"]}`, noQueue},
		{"GetQueueAttributes", `{"QueueUrl":"http://x/123456789012/q"}`, noQueue},
		{"GetQueueAttributes", `{"QueueUrl":"http://x/"}`, sqsFault{404, "InvalidAddress", "InvalidAddress"}},
		{"GetQueueAttributes", `{"QueueUrl":"http://x:y/"}`, sqsFault{404, "InvalidAddress", "InvalidAddress"}},
		{"GetQueueAttributes", `{}`, missing},
		{"GetQueueUrl", `{"QueueName":"q","QueueOwnerAWSAccountId":"123456789012"}`, noQueue},
		{"ListQueues", `{"MaxResults":0}`, badValue},
		{"ListQueues", `{"MaxResults":1001}`, badValue},
		{"StartMessageMoveTask", `{"SourceArn":"arn:aws:sqs:x:000000000000:none"}`, noResource},
		{"StartMessageMoveTask", `{"SourceArn":"arn:aws:sqs:x:000000000000:q"}`, badValue},
		{"CancelMessageMoveTask", `{"TaskHandle":"x"}`, badValue},
		{"AddPermission", `{"QueueUrl":"Q/q"}`, sqsFault{400, "UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation"}},
		{"Fly", `{}`, sqsFault{400, "UnknownOperationException", "InvalidAction"}},
	}
}

func batchLimits() (all []sqsLimit) {
	for action, entry := range map[string]string{
		"SendMessageBatch": `"MessageBody":"x"}`, "DeleteMessageBatch": `"ReceiptHandle":"x"}`,
		"ChangeMessageVisibilityBatch": `"ReceiptHandle":"x","VisibilityTimeout":1}`,
	} {
		for entries, want := range map[string]sqsFault{
			entriesOf(11, `{"Id":"#",`+entry):         {400, "TooManyEntriesInBatchRequest", "AWS.SimpleQueueService.TooManyEntriesInBatchRequest"},
			entriesOf(0, ""):                          {400, "EmptyBatchRequest", "AWS.SimpleQueueService.EmptyBatchRequest"},
			entriesOf(2, `{"Id":"a",`+entry):          {400, "BatchEntryIdsNotDistinct", "AWS.SimpleQueueService.BatchEntryIdsNotDistinct"},
			entriesOf(1, `{"Id":"a.b",`+entry):        badEntryID,
			entriesOf(1, `{"Id":"",`+entry):           badEntryID,
			entriesOf(1, `{"Id":"`+xs(81)+`",`+entry): badEntryID,
		} {
			all = append(all, sqsLimit{action, `{"QueueUrl":"Q/q",` + entries + `}`, want})
		}
	}
	return all
}

// attributesOf are n attributes of a message.
func attributesOf(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"a%d":{"DataType":"String","StringValue":"x"}`, i))
	}
	return strings.Join(list, ",")
}

// TestSQSEntriesFail: an entry of a batch beyond a limit fails alone, with its code.
func TestSQSEntriesFail(t *testing.T) {
	s := start(t)
	c := newSQS(s, "mailer")
	c.call("CreateQueue", `{"QueueName":"q","Attributes":{"MaximumMessageSize":"1024"}}`)
	c.call("CreateQueue", `{"QueueName":"other"}`)
	c.call("CreateQueue", `{"QueueName":"q.fifo","Attributes":{"FifoQueue":"true"}}`)
	foreign := c.receipt("other", "")
	for _, x := range []struct{ action, queue, entry, code string }{
		{"SendMessageBatch", "q", `"MessageBody":"x","DelaySeconds":901`, "InvalidParameterValue"},
		{"SendMessageBatch", "q", `"MessageBody":"x","DelaySeconds":-1`, "InvalidParameterValue"},
		{"SendMessageBatch", "q", `"MessageBody":"\u0001"`, "InvalidMessageContents"},
		{"SendMessageBatch", "q", `"MessageBody":"` + strings.Repeat("x", 1025) + `"`, "InvalidParameterValue"},
		{"SendMessageBatch", "q.fifo", `"MessageBody":"x","MessageGroupId":"g","MessageDeduplicationId":"d","DelaySeconds":1`, "InvalidParameterValue"},
		{"DeleteMessageBatch", "q", `"ReceiptHandle":"` + foreign + `"`, "ReceiptHandleIsInvalid"},
		{"DeleteMessageBatch", "q", `"ReceiptHandle":"x"`, "ReceiptHandleIsInvalid"},
		{"ChangeMessageVisibilityBatch", "q", `"ReceiptHandle":"` + foreign + `","VisibilityTimeout":1`, "ReceiptHandleIsInvalid"},
		{"ChangeMessageVisibilityBatch", "q", `"ReceiptHandle":"x","VisibilityTimeout":43201`, "InvalidParameterValue"},
	} {
		body := `{"QueueUrl":"Q/` + x.queue + `","Entries":[{"Id":"a",` + x.entry + `}]}`
		c.both(x.action, body, func(name string, a *answered, query bool) {
			want := `"Failed":[{"Id":"a","SenderFault":true,"Code":"` + x.code + `","Message":"`
			if query {
				want = `<BatchResultErrorEntry><Id>a</Id><SenderFault>true</SenderFault><Code>` + x.code + `</Code><Message>`
			}
			if a.status != 200 || !strings.Contains(string(a.body), want) {
				t.Errorf("%s %.200s: %s", name, x.entry, a)
			}
		})
	}
}

// TestSQSRefusesSignatures: a request that is altered, or signed for another time, service or body, is refused with
// the error of AWS in both protocols.
func TestSQSRefusesSignatures(t *testing.T) {
	s := start(t)
	c := newSQS(s, "mailer")
	scope := func(from, to string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), from, to, 1))
		}
	}
	incomplete := sqsFault{400, "IncompleteSignatureException", "IncompleteSignature"}
	for name, x := range map[string]struct {
		skew   time.Duration
		change func(*http.Request)
		want   sqsFault
	}{
		"16 minutes late":  {skew: -16 * time.Minute, want: badSignature},
		"16 minutes early": {skew: 16 * time.Minute, want: badSignature},
		"altered body": {change: func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(strings.Repeat(" ", int(r.ContentLength))))
		}, want: badSignature},
		"altered header":    {change: func(r *http.Request) { r.Header.Set("Content-Type", r.Header.Get("Content-Type")+";x") }, want: badSignature},
		"added header":      {change: func(r *http.Request) { r.Header.Set("X-Amz-Other", "x") }, want: badSignature},
		"other region":      {change: scope("eu-west-1", "eu-west-2"), want: badSignature},
		"other service":     {change: scope("/sqs/", "/s3/"), want: badSignature},
		"other day":         {change: scope("/20", "/19"), want: badSignature},
		"without its host":  {change: scope(";host", ""), want: badSignature},
		"unsigned":          {change: func(r *http.Request) { r.Header.Del("Authorization") }, want: sqsFault{403, "MissingAuthenticationTokenException", "MissingAuthenticationToken"}},
		"unknown key":       {change: scope("mailer.", "unknown."), want: sqsFault{403, "UnrecognizedClientException", "InvalidClientTokenId"}},
		"malformed key":     {change: scope("mailer.", "mailer.x"), want: sqsFault{403, "UnrecognizedClientException", "InvalidClientTokenId"}},
		"without signature": {change: scope("Signature=", "Other="), want: incomplete},
		"without date":      {change: func(r *http.Request) { r.Header.Del("X-Amz-Date") }, want: incomplete},
		"two":               {change: func(r *http.Request) { r.Header.Add("Authorization", r.Header.Get("Authorization")) }, want: incomplete},
		"aws-chunked": {change: func(r *http.Request) {
			r.Header.Set("X-Amz-Content-Sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")
			r.Header.Set("Content-Encoding", "aws-chunked")
		}, want: badSignature},
	} {
		c.at, c.change = time.Now().Add(x.skew), x.change
		c.both("ListQueues", `{"MaxResults":5}`, func(protocol string, a *answered, query bool) {
			want := x.want
			if query {
				want.kind = ""
			}
			check.Equalf(t, sqsFaultOf(t, a, query), want, "%s, %s", protocol, name)
		})
	}
	c.at, c.change = time.Time{}, func(r *http.Request) { r.ContentLength = -1 } // chunked, which is not signed
	c.both("ListQueues", `{"MaxResults":5}`, func(name string, a *answered, _ bool) { check.Equalf(t, a.status, 200, "%s: %s", name, a) })
}

// TestSQSDeletesTwice: a client that repeats a deletion gets the same answer, also of a FIFO queue. There a receipt is
// not valid after the message was given again.
func TestSQSDeletesTwice(t *testing.T) {
	s := start(t)
	c := newSQS(s, "mailer")
	c.call("CreateQueue", `{"QueueName":"q"}`)
	c.call("CreateQueue", `{"QueueName":"q.fifo","Attributes":{"FifoQueue":"true"}}`)
	for queue, more := range map[string]string{"q": "", "q.fifo": `,"MessageGroupId":"g","MessageDeduplicationId":"1"`} {
		given := `{"QueueUrl":"Q/` + queue + `","ReceiptHandle":"` + c.receipt(queue, more) + `"}`
		for range 2 {
			check.Equalf(t, c.call("DeleteMessage", given).status, 200, "%s", queue)
		}
	}
	first := c.receipt("q.fifo", `,"MessageGroupId":"g","MessageDeduplicationId":"2"`)
	c.call("ChangeMessageVisibility", `{"QueueUrl":"Q/q.fifo","ReceiptHandle":"`+first+`","VisibilityTimeout":0}`)
	must.Equal(t, len(c.call("ReceiveMessage", `{"QueueUrl":"Q/q.fifo","WaitTimeSeconds":5}`).body) > 50, true)
	check.Equal(t, sqsFaultOf(t, c.call("DeleteMessage", `{"QueueUrl":"Q/q.fifo","ReceiptHandle":"`+first+`"}`), false), badValue)
}

// TestSQSTargetIsSigned: the URL of a presigned POST cannot be used for another action.
func TestSQSTargetIsSigned(t *testing.T) {
	s := start(t)
	c := newSQS(s, "mailer")
	uri := c.presigned("Action=ListQueues", time.Hour)
	c.change = func(r *http.Request) { r.Header.Set("X-Amz-Target", "AmazonSQS.ListQueues") }
	check.Equal(t, sqsFaultOf(t, c.sendAs(must.Get(http.NewRequest("GET", uri, nil))(t)), false), badSignature)
}

// TestSQSBombs: a request that would take much memory, or that decoders change silently, is refused in the form of
// its protocol, before memory for its parts is taken.
func TestSQSBombs(t *testing.T) {
	s := start(t, func(c *setup) { c.limit = 64 << 20 })
	c := newSQS(s, "mailer")
	c.call("CreateQueue", `{"QueueName":"q"}`)
	for name, x := range map[string]struct {
		body string
		want sqsFault
	}{
		"deep":             {strings.Repeat("[", 100_000), badText},
		"deep attributes":  {`{"QueueUrl":"Q/q","MessageBody":"x","MessageAttributes":` + strings.Repeat(`{"a":`, 9_000) + strings.Repeat("}", 9_001), badText},
		"many members":     {`{` + strings.Repeat(`"":{},`, 1_000_000) + `"a":1}`, badText},
		"many entries":     {`{"Entries":[` + strings.Repeat(`{},`, 1_000_000) + `{}]}`, badText},
		"another type":     {`{"QueueUrl":["Q/q"]}`, badText},
		"an array":         {`[]`, badText},
		"half a surrogate": {`{"QueueUrl":"Q/q","MessageBody":"\ud800"}`, badContents},
		"invalid UTF-8":    {"{\"QueueUrl\":\"Q/q\",\"MessageBody\":\"\xff\"}", badContents},
	} {
		check.Equalf(t, sqsFaultOf(t, c.call("SendMessage", x.body), false), x.want, "%s", name)
	}
	for name, form := range map[string]string{
		"many parameters":   "Action=SendMessage" + strings.Repeat("&a=", 1_000_000),
		"many separators":   "Action=SendMessage" + strings.Repeat("&", 1_000_000),
		"an invalid escape": "Action=SendMessage&MessageBody=%zz",
	} {
		check.Equalf(t, sqsFaultOf(t, c.query("/000000000000/q", form), true), sqsFault{400, "", "MalformedInput"}, "%s", name)
	}
	c.change = func(r *http.Request) { r.Header.Set("X-Long", strings.Repeat("x", 1<<20)) }
	check.Equal(t, c.call("ListQueues", "{}").status, http.StatusRequestHeaderFieldsTooLarge)
	c.change = nil
	large := `{"QueueUrl":"Q/q","MessageBody":"` + strings.Repeat(`[{,`, 1<<20/3) + `"}` // a message is one member
	if a := c.call("SendMessage", large); a.status != 200 {
		t.Errorf("a large message of separators: %s", a)
	}
	check.Equal(t, s.queue("q").Sent, 1)
}
