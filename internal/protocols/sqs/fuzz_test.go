package sqs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// parsed reads a request of an action, in JSON or as a form.
func parsed(t *testing.T, action, query, body string) (c Call, err error) {
	t.Helper()
	r := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/", RawQuery: query}, Header: http.Header{}}
	if r.Header.Set("Content-Type", formType); action != "" {
		r.Header.Set("Content-Type", contentJSON)
		r.Header.Set("X-Amz-Target", targetPrefix+action)
	}
	held := int64(-1)
	err = c.Parse(r, []byte(body), func(n int64) error { held = n; return nil })
	if e, ok := errors.AsType[*Error](err); err != nil && (!ok || e.Status < 400 || e.Status >= 500 || e.Message == "" || e.Query == "") {
		t.Fatalf("%s %s %q: %v", action, query, body, err)
	}
	if held > 2*int64(len(body))+partsMax*partBytes {
		t.Fatalf("%d bytes are held for a body of %d", held, len(body))
	}
	return c, err
}

// FuzzCall: a request in the Query protocol means the same in JSON, and none is read in two ways.
func FuzzCall(f *testing.F) {
	f.Add("", "Action=SendMessageBatch&QueueUrl=/000000000000/q&SendMessageBatchRequestEntry.1.Id=a&SendMessageBatchRequestEntry.1.MessageBody=%3Ca%3E&SendMessageBatchRequestEntry.1.DelaySeconds=5", "")
	f.Add("", "Action=SendMessage&MessageBody=x", "QueueUrl=q&MessageAttribute.1.Name=n&MessageAttribute.1.Value.DataType=Binary&MessageAttribute.1.Value.BinaryValue=eA%3D%3D")
	f.Add("", "Action=CreateQueue&QueueName=q&Attribute.1.Name=a&Attribute.1.Value=b&Tag.1.Key=k&Tag.1.Value=v", "")
	f.Add("", "Action=ReceiveMessage&QueueUrl=q&AttributeName.1=All&MessageAttributeName.1=a.*&MaxNumberOfMessages=10&WaitTimeSeconds=-1", "")
	f.Add("", "Action=UntagQueue&QueueUrl=q&TagKey.1=a&TagKey.2=b&a;b", "")
	f.Add("SendMessage", "", `{"QueueUrl":"http://x/000000000000/q","MessageBody":"\ud83d\ude00","MessageAttributes":{"n":{"DataType":"Binary","BinaryValue":"eA=="}}}`)
	f.Add("SendMessageBatch", "", `{"QueueUrl":"q","Entries":[{"Id":"1","MessageBody":"\ud800"},{"Id":null}]}`)
	f.Add("CreateQueue", "", `{"QueueName":"q","tags":{"a":"b"},"Attributes":{"DelaySeconds":1}}`)
	f.Add("Fly", "", `[[[[`)
	f.Fuzz(func(t *testing.T, action, query, body string) {
		c, err := parsed(t, action, query, body)
		if err != nil {
			return
		}
		text, err := json.Marshal(&c.in)
		if err != nil || !utf8.ValidString(query+body) {
			return
		}
		for _, v := range []string{query, body} {
			if v, err := url.QueryUnescape(v); err != nil || !utf8.ValidString(v) {
				return // the Query protocol has such values, which are refused later
			}
		}
		again, err := parsed(t, c.Action, "", string(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !reflect.DeepEqual(c.in, again.in) || again.queue != c.queue {
			t.Fatalf("%s and %q are %+v, in JSON %+v", query, body, c.in, again.in)
		}
	})
}

// FuzzSignature: any Authorization header or query is refused, and none crashes. What the SDK of AWS signs is
// accepted, and nothing else with its signature.
func FuzzSignature(f *testing.F) {
	const good = algorithm + " Credential=k/20261130/eu-west-1/sqs/aws4_request, SignedHeaders=host;x-amz-date, Signature=0"
	f.Add(good, "20261130T000000Z", "a=b", "/", "x", "v")
	f.Add("", "", "X-Amz-Algorithm="+algorithm+"&X-Amz-Credential=k/20261130/r/sqs/aws4_request&X-Amz-Date=20261130T000000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=0", "/000000000000/q", "", "")
	f.Add("AWS4-HMAC-SHA256", "", "b=%20+c&a=%2F~", "/a%20b//c", "Action=x", "  two  blanks ")
	f.Fuzz(func(t *testing.T, authorization, stamp, query, path, body, value string) {
		now := time.Date(2026, 11, 30, 0, 1, 0, 0, time.UTC)
		given := &http.Request{Method: http.MethodPost, Host: "x", URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{"X-Amz-Date": {stamp}}}
		if authorization != "" {
			given.Header.Set("Authorization", authorization)
		}
		s, err := ParseSignature(given, now)
		if err == nil {
			err = s.Verify(given, []byte(body), "secret")
		}
		if e, ok := errors.AsType[*Error](err); !ok || e.Status != http.StatusBadRequest && e.Status != http.StatusForbidden {
			t.Fatalf("%v", err)
		}
		signed, err := http.NewRequest(http.MethodPost, "http://host/", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if signed.URL.Path, signed.URL.RawQuery = "/"+path, query; strings.Contains(query, algorithm) {
			return
		}
		for _, r := range value { // of other blanks each SDK makes something else
			if !unicode.IsPrint(r) {
				return
			}
		}
		signed.Header.Set("X-Amz-Other", value)
		sum := sha256.Sum256([]byte(body))
		if err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: "k", SecretAccessKey: "secret"}, signed, hex.EncodeToString(sum[:]), "sqs", "eu-west-1", now); err != nil {
			return
		}
		verify := func(body string) error {
			s, err := ParseSignature(signed, now)
			if err != nil {
				t.Fatalf("what the SDK signs: %v", err)
			}
			return s.Verify(signed, []byte(body), "secret")
		}
		if err := verify(body); err != nil {
			t.Fatalf("what the SDK signs: %v, %v", err, signed)
		}
		if verify(body+"x") == nil {
			t.Fatal("another body has the same signature")
		}
		signed.URL.Path += "x"
		if verify(body) == nil {
			t.Fatal("another path has the same signature")
		}
	})
}
