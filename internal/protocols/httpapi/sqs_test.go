package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// sqsClient signs requests as the SDKs of AWS do.
type sqsClient struct {
	s    *server
	pair api.SigningPair
	at   time.Time // of signatures; zero: now
	// change alters a signed request.
	change func(*http.Request)
}

// newSQS returns a client with a token that may do everything with queues.
func newSQS(s *server, id string) *sqsClient {
	s.t.Helper()
	s.must(201, s.send("POST", "/tokens", `{"id":"`+id+`","read":["*"],"write":["*"],"admin":["*"],"groups":["*"]}`), nil)
	return &sqsClient{s: s, pair: signingPair(s, id)}
}

func signingPair(s *server, id string) (pair api.SigningPair) {
	s.t.Helper()
	s.must(200, s.send("POST", "/tokens/"+id+"/aws", ""), &pair)
	return pair
}

func (c *sqsClient) credentials() aws.Credentials {
	return aws.Credentials{AccessKeyID: c.pair.AccessKeyID, SecretAccessKey: c.pair.SecretAccessKey}
}

func (c *sqsClient) now() time.Time {
	if c.at.IsZero() {
		return time.Now()
	}
	return c.at
}

// send signs and sends a request.
func (c *sqsClient) send(req *http.Request, body string) *answered {
	c.s.t.Helper()
	sum := sha256.Sum256([]byte(body))
	must.NoError(c.s.t, v4.NewSigner().SignHTTP(context.Background(), c.credentials(), req, hex.EncodeToString(sum[:]), "sqs", "eu-west-1", c.now()))
	return c.sendAs(req)
}

func (c *sqsClient) sendAs(req *http.Request) *answered {
	c.s.t.Helper()
	if c.change != nil {
		c.change(req)
	}
	resp := must.Get(c.s.client.Do(req))(c.s.t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(c.s.t)
	if bytes.Contains(b, []byte(c.pair.SecretAccessKey)) {
		c.s.t.Error("the secret is in an answer")
	}
	return &answered{status: resp.StatusCode, header: resp.Header, body: b}
}

// call makes a call in JSON. Q in the body stands for the URL of queues.
func (c *sqsClient) call(action, body string) *answered {
	c.s.t.Helper()
	body = strings.ReplaceAll(body, "Q/", "http://"+c.s.addr+"/000000000000/")
	req := must.Get(http.NewRequest("POST", "http://"+c.s.addr+"/", strings.NewReader(body)))(c.s.t)
	req.Header.Set("X-Amz-Target", "AmazonSQS."+action)
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	return c.send(req, body)
}

// query makes a call in the Query protocol.
func (c *sqsClient) query(path, form string) *answered {
	c.s.t.Helper()
	req := must.Get(http.NewRequest("POST", "http://"+c.s.addr+path, strings.NewReader(form)))(c.s.t)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	return c.send(req, form)
}

// presigned returns a presigned URL.
func (c *sqsClient) presigned(query string, life time.Duration) string {
	c.s.t.Helper()
	req := must.Get(http.NewRequest("GET", "http://"+c.s.addr+"/000000000000/q?"+query+fmt.Sprintf("&X-Amz-Expires=%d", int(life.Seconds())), nil))(c.s.t)
	sum := sha256.Sum256(nil)
	uri, _, err := v4.NewSigner().PresignHTTP(context.Background(), c.credentials(), req, hex.EncodeToString(sum[:]), "sqs", "eu-west-1", c.now())
	must.NoError(c.s.t, err)
	return uri
}

var varying = regexp.MustCompile(`127\.0\.0\.1:\d+|[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[0-9a-f]{4}-|<RequestId>[0-9a-f]+</RequestId>|"RequestId":"[0-9a-f]+"|"ReceiptHandle":"[\w-]+"|\d{13}`)

// stable returns an answer without what changes in each run.
func (a *answered) stable() string {
	return fmt.Sprintf("%d %s %s", a.status, a.header.Get("X-Amzn-Query-Error"), varying.ReplaceAllString(string(a.body), "*"))
}

// TestSQSAnswers compares answers of both protocols, byte by byte.
func TestSQSAnswers(t *testing.T) {
	s := start(t)
	c := newSQS(s, "mailer")
	for _, x := range []struct{ action, body, want string }{
		{"CreateQueue", `{"QueueName":"q","Attributes":{"VisibilityTimeout":"60"},"tags":{"a":"b"}}`, `200  {"QueueUrl":"http://*/000000000000/q"}`},
		{"CreateQueue", `{"QueueName":"q","Attributes":{"VisibilityTimeout":"60"}}`, `200  {"QueueUrl":"http://*/000000000000/q"}`},
		{"CreateQueue", `{"QueueName":"q","Attributes":{"VisibilityTimeout":"61"}}`, `400 QueueAlreadyExists;Sender {"__type":"com.amazonaws.sqs#QueueNameExists","message":"A queue already exists with the same name and a different value for attribute VisibilityTimeout"}`},
		{"CreateQueue", `{"QueueName":"a.b"}`, `400 InvalidParameterValue;Sender {"__type":"com.amazonaws.sqs#InvalidParameterValueException","message":"Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"}`},
		{"CreateQueue", `{"QueueName":"x","Attributes":{"ContentBasedDeduplication":"true"}}`, `400 InvalidAttributeName;Sender {"__type":"com.amazonaws.sqs#InvalidAttributeName","message":"Unknown Attribute ContentBasedDeduplication."}`},
		{"CreateQueue", `{"QueueName":"x","Attributes":{"DelaySeconds":"901"}}`, `400 InvalidAttributeValue;Sender {"__type":"com.amazonaws.sqs#InvalidAttributeValue","message":"Invalid value for the parameter DelaySeconds."}`},
		{"ListQueueTags", `{"QueueUrl":"Q/q"}`, `200  {"Tags":{"a":"b"}}`},
		{"GetQueueUrl", `{"QueueName":"none"}`, `400 AWS.SimpleQueueService.NonExistentQueue;Sender {"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"The specified queue does not exist."}`},
		{
			"SendMessage", `{"QueueUrl":"Q/q","MessageBody":"<a>","MessageAttributes":{"n":{"DataType":"Number.int","StringValue":"1"}}}`,
			`200  {"MessageId":"*000000000001","MD5OfMessageBody":"e2fc207215939b25e8dd4c6f9db3cc38","MD5OfMessageAttributes":"750ab39764677e6976a138b26d56e5e8"}`,
		},
		{
			"ReceiveMessage", `{"QueueUrl":"Q/q","AttributeNames":["All"],"MessageAttributeNames":["n"]}`,
			`200  {"Messages":[{"MessageId":"*000000000001",*,"MD5OfBody":"e2fc207215939b25e8dd4c6f9db3cc38","Body":"<a>","Attributes":{"ApproximateFirstReceiveTimestamp":"*","ApproximateReceiveCount":"1","SenderId":"mailer","SentTimestamp":"*"},"MD5OfMessageAttributes":"750ab39764677e6976a138b26d56e5e8","MessageAttributes":{"n":{"StringValue":"1","DataType":"Number.int"}}}]}`,
		},
		{"ReceiveMessage", `{"QueueUrl":"Q/q"}`, `200  {}`},
		{"DeleteMessage", `{"QueueUrl":"Q/q","ReceiptHandle":"x"}`, `404 ReceiptHandleIsInvalid;Sender {"__type":"com.amazonaws.sqs#ReceiptHandleIsInvalid","message":"The input receipt handle \"x\" is not a valid receipt handle."}`},
		{"DeleteMessageBatch", `{"QueueUrl":"Q/q","Entries":[{"Id":"1","ReceiptHandle":"x"}]}`, `200  {"Successful":[],"Failed":[{"Id":"1","SenderFault":true,"Code":"ReceiptHandleIsInvalid","Message":"The input receipt handle \"x\" is not a valid receipt handle."}]}`},
		{"SendMessageBatch", `{"QueueUrl":"Q/q","Entries":[]}`, `400 AWS.SimpleQueueService.EmptyBatchRequest;Sender {"__type":"com.amazonaws.sqs#EmptyBatchRequest","message":"There should be at least one SendMessageBatchRequestEntry in the request."}`},
		{"SendMessage", `{"QueueUrl":"Q/q"}`, `400 MissingParameter;Sender {"__type":"com.amazonaws.sqs#MissingRequiredParameterException","message":"The request must contain the parameter MessageBody."}`},
		{"SendMessage", `{"QueueUrl":5}`, `400 MalformedInput;Sender {"__type":"com.amazonaws.sqs#SerializationException","message":"QueueUrl cannot be a number."}`},
		{"Fly", `{}`, `400 InvalidAction;Sender {"__type":"com.amazonaws.sqs#UnknownOperationException","message":"The requested operation is not recognized by the service."}`},
		{"AddPermission", `{"QueueUrl":"Q/q"}`, `400 AWS.SimpleQueueService.UnsupportedOperation;Sender {"__type":"com.amazonaws.sqs#UnsupportedOperation","message":"Permissions are rules of tokens: seb acl allow, or PUT /acls."}`},
		{"SetQueueAttributes", `{"QueueUrl":"Q/q","Attributes":{"KmsMasterKeyId":"k","SqsManagedSseEnabled":"true"}}`, `400 InvalidAttributeName;Sender {"__type":"com.amazonaws.sqs#InvalidAttributeName","message":"You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE."}`},
		{"SetQueueAttributes", `{"QueueUrl":"Q/q","Attributes":{"KmsMasterKeyId":"k"}}`, `200  {}`},
		{"GetQueueAttributes", `{"QueueUrl":"Q/q","AttributeNames":["SqsManagedSseEnabled"]}`, `200  {"Attributes":{"SqsManagedSseEnabled":"false"}}`},
		{"ListQueues", `{"MaxResults":1}`, `200  {"QueueUrls":["http://*/000000000000/q"]}`},
	} {
		check.Equalf(t, c.call(x.action, x.body).stable(), x.want, "%s %s", x.action, x.body)
	}
	const ns = ` xmlns="http://queue.amazonaws.com/doc/2012-11-05/"`
	const meta = `<ResponseMetadata>*</ResponseMetadata>`
	for _, x := range []struct{ path, form, want string }{
		{"/", "Action=CreateQueue&QueueName=y&Attribute.1.Name=DelaySeconds&Attribute.1.Value=0", `200  <?xml version="1.0"?><CreateQueueResponse` + ns + `><CreateQueueResult><QueueUrl>http://*/000000000000/y</QueueUrl></CreateQueueResult>` + meta + `</CreateQueueResponse>`},
		{
			"/000000000000/y", "Action=SendMessageBatch&SendMessageBatchRequestEntry.1.Id=a&SendMessageBatchRequestEntry.1.MessageBody=%3Ca%3E&SendMessageBatchRequestEntry.2.Id=b&SendMessageBatchRequestEntry.2.MessageBody=%01",
			`200  <?xml version="1.0"?><SendMessageBatchResponse` + ns + `><SendMessageBatchResult><SendMessageBatchResultEntry><Id>a</Id><MessageId>*000000000001</MessageId><MD5OfMessageBody>e2fc207215939b25e8dd4c6f9db3cc38</MD5OfMessageBody></SendMessageBatchResultEntry>` +
				`<BatchResultErrorEntry><Id>b</Id><SenderFault>true</SenderFault><Code>InvalidMessageContents</Code><Message>Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF</Message></BatchResultErrorEntry></SendMessageBatchResult>` + meta + `</SendMessageBatchResponse>`,
		},
		{"/000000000000/y", "Action=DeleteMessage&ReceiptHandle=x", `404  <?xml version="1.0"?><ErrorResponse` + ns + `><Error><Type>Sender</Type><Code>ReceiptHandleIsInvalid</Code><Message>The input receipt handle &#34;x&#34; is not a valid receipt handle.</Message><Detail/></Error>*</ErrorResponse>`},
		{"/000000000000/none", "Action=PurgeQueue", `400  <?xml version="1.0"?><ErrorResponse` + ns + `><Error><Type>Sender</Type><Code>AWS.SimpleQueueService.NonExistentQueue</Code><Message>The specified queue does not exist for this wsdl version.</Message><Detail/></Error>*</ErrorResponse>`},
		{"/", "Action=Fly", `400  <?xml version="1.0"?><ErrorResponse` + ns + `><Error><Type>Sender</Type><Code>InvalidAction</Code><Message>The action Fly is not valid for this endpoint.</Message><Detail/></Error>*</ErrorResponse>`},
		{"/000000000000/y", "Action=DeleteQueue", `200  <?xml version="1.0"?><DeleteQueueResponse` + ns + `>` + meta + `</DeleteQueueResponse>`},
	} {
		check.Equalf(t, c.query(x.path, x.form).stable(), x.want, "%s %s", x.path, x.form)
	}
}

// TestSQSQueryJSON compares answers to requests of the Query protocol that accept JSON, byte by byte.
func TestSQSQueryJSON(t *testing.T) {
	s := start(t)
	c := newSQS(s, "mailer")
	c.change = func(r *http.Request) { r.Header.Set("Accept", "application/json") }
	const meta = `"ResponseMetadata":{*}}}`
	for _, x := range []struct{ path, form, want string }{
		{"/", "Action=CreateQueue&QueueName=q", `200  {"CreateQueueResponse":{"CreateQueueResult":{"QueueUrl":"http://*/000000000000/q"},` + meta},
		{"/", "Action=ListQueues", `200  {"ListQueuesResponse":{"ListQueuesResult":{"queueUrls":["http://*/000000000000/q"]},` + meta},
		{"/000000000000/q", "Action=GetQueueAttributes&AttributeName.1=DelaySeconds", `200  {"GetQueueAttributesResponse":{"GetQueueAttributesResult":{"Attributes":[{"Name":"DelaySeconds","Value":"0"}]},` + meta},
		{
			"/000000000000/q", "Action=SendMessage&MessageBody=a&MessageAttribute.1.Name=n&MessageAttribute.1.Value.DataType=Number&MessageAttribute.1.Value.StringValue=1",
			`200  {"SendMessageResponse":{"SendMessageResult":{"MessageId":"*000000000001","MD5OfMessageBody":"0cc175b9c0f1b6a831c399e269772661","MD5OfMessageAttributes":"ef88bdc4583394a9f2bcdc6a6f0ccbfe"},` + meta,
		},
		{
			"/000000000000/q", "Action=ReceiveMessage&AttributeName.1=ApproximateReceiveCount&MessageAttributeName.1=All",
			`200  {"ReceiveMessageResponse":{"ReceiveMessageResult":{"messages":[{"MessageId":"*000000000001",*,"MD5OfBody":"0cc175b9c0f1b6a831c399e269772661","Body":"a","Attributes":[{"Name":"ApproximateReceiveCount","Value":"1"}],` +
				`"MD5OfMessageAttributes":"ef88bdc4583394a9f2bcdc6a6f0ccbfe","MessageAttributes":[{"Name":"n","Value":{"StringValue":"1","DataType":"Number"}}]}]},` + meta,
		},
		{"/000000000000/q", "Action=ReceiveMessage", `200  {"ReceiveMessageResponse":{"ReceiveMessageResult":{},` + meta},
		{"/000000000000/q", "Action=PurgeQueue", `200  {"PurgeQueueResponse":{` + meta},
		{"/000000000000/q", "", "404  <UnknownOperationException/>\n"},
		{"/000000000000/q", "Action=ListQueues", `400  {"Error":{"Code":"InvalidAction","Message":"The action ListQueues is not valid for this endpoint.","Type":"Sender"},*}`},
	} {
		check.Equalf(t, c.query(x.path, x.form).stable(), x.want, "%s %s", x.path, x.form)
	}
}

// TestSQSSignatures: only a request as it was signed, by a token that is valid, at its time, is answered.
func TestSQSSignatures(t *testing.T) {
	s := start(t)
	c := newSQS(s, "mailer")
	c.call("CreateQueue", `{"QueueName":"q"}`)
	code := func(a *answered) string { return strings.TrimSuffix(a.header.Get("X-Amzn-Query-Error"), ";Sender") }
	list := func() string { return code(c.call("ListQueues", "{}")) }
	check.Equal(t, list(), "")
	for name, change := range map[string]func(*http.Request){
		"body":   func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("[]")) },
		"target": func(r *http.Request) { r.Header.Set("X-Amz-Target", "AmazonSQS.PurgeQueue") },
		"path":   func(r *http.Request) { r.URL.Path = "/000000000000/q" },
		"query":  func(r *http.Request) { r.URL.RawQuery = "a=b" },
		"host":   func(r *http.Request) { r.Host = "sqs.example" },
		"date": func(r *http.Request) {
			r.Header.Set("X-Amz-Date", time.Now().Add(time.Minute).UTC().Format("20060102T150405Z"))
		},
		"added": func(r *http.Request) { r.Header.Set("X-Amz-Other", "x") },
		"scope": func(r *http.Request) {
			r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), "eu-west-1", "eu-west-2", 1))
		},
	} {
		c.change = change
		check.Equalf(t, list(), "SignatureDoesNotMatch", "altered %s", name)
	}
	for want, change := range map[string]func(*http.Request){
		"MissingAuthenticationToken": func(r *http.Request) { r.Header.Del("Authorization") },
		"IncompleteSignature":        func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+canary) },
		"InvalidClientTokenId": func(r *http.Request) {
			r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), "mailer.", "unknown.", 1))
		},
	} {
		c.change = change
		check.Equal(t, list(), want)
	}
	c.change = nil
	for _, skew := range []time.Duration{-16 * time.Minute, 16 * time.Minute} {
		c.at = time.Now().Add(skew)
		if a := c.call("ListQueues", "{}"); code(a) != "SignatureDoesNotMatch" || !strings.Contains(string(a.body), "15 min.") {
			t.Errorf("clock %s off: %s", skew, a)
		}
	}
	c.at = time.Now().Add(-14 * time.Minute)
	check.Equal(t, list(), "")
	get := func(uri string) string { return c.sendAs(must.Get(http.NewRequest("GET", uri, nil))(t)).String() }
	uri := c.presigned("Action=GetQueueAttributes&AttributeName.1=QueueArn", time.Hour)
	if a := get(uri); !strings.Contains(a, "arn:aws:sqs:eu-west-1:000000000000:q") {
		t.Errorf("presigned: %s", a)
	}
	for want, uri := range map[string]string{
		"does not match":  strings.Replace(uri, "QueueArn", "All", 1),
		"is now earlier":  c.presigned("Action=ListQueues", time.Minute),
		"X-Amz-Expires":   strings.Replace(uri, "Expires=3600", "Expires=3600000", 1),
		"Authentication ": "http://" + s.addr + "/000000000000/q?Action=ListQueues",
	} {
		if a := get(uri); !strings.HasPrefix(a, "403 <") && !strings.HasPrefix(a, "400 <") || !strings.Contains(a, want) {
			t.Errorf("%s: %s, want %s", uri, a, want)
		}
	}
	if strings.Contains(s.log.String(), c.pair.SecretAccessKey) {
		t.Error("the secret is in the log")
	}
}

// TestSQSKeysFollowTheirToken: a rotation makes another pair, both are valid until the overlap ends, and a
// revocation ends both.
func TestSQSKeysFollowTheirToken(t *testing.T) {
	var ahead atomic.Int64
	s := start(t, func(c *setup) { c.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) } })
	old := newSQS(s, "mailer")
	check.Equal(t, signingPair(s, "mailer"), old.pair)
	s.must(201, s.send("POST", "/tokens/mailer/rotate?overlap=5m", ""), nil)
	next := &sqsClient{s: s, pair: signingPair(s, "mailer")}
	valid := func() string {
		return fmt.Sprint(old.call("ListQueues", "").status, next.call("ListQueues", "").status)
	}
	if old.pair == next.pair {
		t.Error("the pair is the same")
	}
	check.Equal(t, valid(), "200 200")
	ahead.Store(int64(6 * time.Minute))
	check.Equal(t, valid(), "403 200")
	s.must(204, s.send("DELETE", "/tokens/mailer", ""), nil)
	check.Equal(t, valid(), "403 403")
	newSQS(s, "mailer")
	check.Equal(t, valid(), "403 403")
}

// TestSQSRights: a token without a right gets AccessDenied, also for queues that do not exist.
func TestSQSRights(t *testing.T) {
	s := start(t)
	newSQS(s, "admin").call("CreateQueue", `{"QueueName":"q"}`)
	s.must(201, s.send("POST", "/tokens", `{"id":"sender","write":["q"]}`), nil)
	c := &sqsClient{s: s, pair: signingPair(s, "sender")}
	check.Equal(t, c.call("SendMessage", `{"QueueUrl":"Q/q","MessageBody":"x"}`).status, 200)
	for action, body := range map[string]string{
		"ReceiveMessage": `{"QueueUrl":"Q/q"}`, "DeleteMessage": `{"QueueUrl":"Q/q","ReceiptHandle":"x"}`, "PurgeQueue": `{"QueueUrl":"Q/q"}`,
		"ChangeMessageVisibility": `{"QueueUrl":"Q/q","ReceiptHandle":"x","VisibilityTimeout":1}`, "DeleteQueue": `{"QueueUrl":"Q/q"}`,
		"SendMessage": `{"QueueUrl":"Q/other","MessageBody":"x"}`, "CreateQueue": `{"QueueName":"other"}`, "GetQueueUrl": `{"QueueName":"other"}`,
		"SetQueueAttributes": `{"QueueUrl":"Q/q","Attributes":{"DelaySeconds":"1"}}`, "TagQueue": `{"QueueUrl":"Q/q","Tags":{"a":"b"}}`,
	} {
		check.Equalf(t, c.call(action, body).header.Get("X-Amzn-Query-Error"), "AccessDenied;Sender", "%s", action)
	}
	check.Equal(t, s.as(c.pair.SecretAccessKey, "GET", "/queues", "").status, 401)
}

// TestSQSWithoutSecretsKey: without a key to encrypt it, the cluster gets no signing key.
func TestSQSWithoutSecretsKey(t *testing.T) {
	s := start(t, func(c *setup) { c.secrets = nil })
	s.must(201, s.send("POST", "/tokens", `{"id":"mailer"}`), nil)
	if p := s.send("POST", "/tokens/mailer/aws", "").problem(t); !strings.Contains(p.Detail, "seb secrets init") {
		t.Errorf("%+v", p)
	}
}

// TestSQSIsOff: with NoSQS requests of the API find no route.
func TestSQSIsOff(t *testing.T) {
	s := start(t, func(c *setup) { c.http.NoSQS = true })
	check.Equal(t, newSQS(s, "mailer").call("ListQueues", "{}").status, 404)
}

// TestStandbyForwardsSQS: a standby verifies signatures itself, and the leader answers with its URLs.
func TestStandbyForwardsSQS(t *testing.T) {
	t.Parallel()
	leads, standby, _ := pair(t)
	c := newSQS(standby, "mailer")
	a := c.call("CreateQueue", `{"QueueName":"q"}`)
	if a.header.Get(api.HeaderLeader) == "" || !strings.Contains(string(a.body), standby.addr) {
		t.Fatalf("%s, %v", a, a.header)
	}
	waits := make(chan *answered, 1)
	go func() { waits <- c.call("ReceiveMessage", `{"QueueUrl":"Q/q","WaitTimeSeconds":20}`) }()
	sebtest.Eventually(t, "a worker waits at the leader", func() bool { return leads.api.o.Queues.Waiting("q") == 1 })
	large := strings.Repeat("x", 1<<20)
	check.Equal(t, c.call("SendMessage", `{"QueueUrl":"Q/q","MessageBody":"`+large+`"}`).status, 200)
	if a := <-waits; !strings.Contains(string(a.body), large) {
		t.Errorf("received %d bytes, %.200s", len(a.body), a)
	}
	wrong := *c
	wrong.pair.SecretAccessKey = "wrong"
	if a := wrong.call("ListQueues", "{}"); a.status != 403 || a.header.Get(api.HeaderLeader) != "" {
		t.Errorf("a wrong secret: %s", a)
	}
	c.change = func(r *http.Request) { // what a broker would say
		r.Header.Set(api.HeaderForwarded, strings.Repeat("0", 32))
		r.Header.Set(api.HeaderForwardedAs, strings.Repeat("0", 64)+" mailer 1 eu-west-1 http:%2F%2Fx")
	}
	c.s = leads
	check.Equal(t, c.call("ListQueues", "{}").status, 403)
}

// TestSQSGetIsForwardedOnce: a presigned GET may have an effect, so a standby does not repeat it when the leader
// closes the connection, whether that is new or was used before.
func TestSQSGetIsForwardedOnce(t *testing.T) {
	t.Parallel()
	leads, standby, view := pair(t)
	c := newSQS(standby, "mailer")
	c.call("CreateQueue", `{"QueueName":"q"}`)
	get := func(query string) *answered {
		return c.sendAs(must.Get(http.NewRequest("GET", c.presigned(query, time.Hour), nil))(t))
	}
	if a := get("Action=SendMessage&MessageBody=x"); a.status != 200 || leads.queue("q").Ready != 1 {
		t.Errorf("a presigned SendMessage at a standby: %s", a)
	}
	for _, before := range []int64{0, 1} { // requests on the connection
		other := &stub{}
		other = newStub(t, func(w http.ResponseWriter, r *http.Request) {
			if other.n.Load() > before {
				cut(w, r)
			}
		})
		view.at("leader", other.URL)
		view.lead("leader")
		for range before {
			get("Action=SendMessage&MessageBody=x")
		}
		if a := get("Action=ReceiveMessage"); a.status != 500 || !strings.Contains(string(a.body), "<Code>InternalError</Code>") {
			t.Errorf("a leader that closes the connection: %s", a)
		}
		check.Equal(t, other.n.Load(), before+1)
	}
}
