package sqs

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sebbroker/seb/internal/engine/base/input"
)

// parameters are those of all actions.
type parameters struct {
	QueueUrl, QueueName, QueueNamePrefix string //nolint:revive // names of AWS
	QueueOwnerAWSAccountId               string
	NextToken                            string
	MaxResults                           *int
	Attributes, Tags                     map[string]string
	TagKeys                              []string
	AttributeNames                       []string
	MessageSystemAttributeNames          []string
	MessageAttributeNames                []string
	MaxNumberOfMessages, WaitTimeSeconds *int
	ReceiveRequestAttemptId              *string
	SourceArn, DestinationArn            string
	MaxNumberOfMessagesPerSecond         *int
	TaskHandle                           string
	Entries                              []entry
	entry                                // of actions on one message
}

// entry is one message of a batch, or of an action on one.
type entry struct {
	Id                      string //nolint:revive // a name of AWS
	MessageBody             *string
	DelaySeconds            *int
	MessageAttributes       map[string]value
	MessageSystemAttributes map[string]value
	MessageDeduplicationId  *string
	MessageGroupId          *string
	ReceiptHandle           *string
	VisibilityTimeout       *int
}

// value is an attribute of a message.
type value struct {
	DataType    string
	StringValue *string
	BinaryValue []byte
}

const (
	// targetPrefix begins X-Amz-Target.
	targetPrefix = "AmazonSQS."
	// partsMax bounds the members and elements of a request, each of which takes partBytes at most.
	partsMax  = 10_000
	partBytes = 320
	// BodyMax bounds bodies: each byte of a message of 1 MiB can take six in JSON.
	BodyMax = 7 << 20
)

// Is reports whether a request is one of the SQS API: by its target, its signature, or its path.
func Is(r *http.Request) bool {
	if r.Method != http.MethodPost && r.Method != http.MethodGet {
		return false
	}
	if strings.HasPrefix(r.Header.Get("X-Amz-Target"), targetPrefix) || strings.HasPrefix(r.Header.Get("Authorization"), algorithm) ||
		strings.Contains(r.URL.RawQuery, paramAlgorithm+"=") || strings.HasPrefix(r.URL.Path, "/"+Account+"/") {
		return true
	}
	return r.Method == http.MethodPost && r.URL.Path == "/" && strings.HasPrefix(r.Header.Get("Content-Type"), formType)
}

// Form is the form of an answer.
type Form uint8

// The forms of answers. The last two are of requests in the Query protocol.
const (
	JSON Form = iota
	XML
	QueryJSON // with Accept: application/json
)

// FormOf returns the form of the answer that a request wants.
func FormOf(r *http.Request) Form {
	switch {
	case strings.HasPrefix(r.Header.Get("X-Amz-Target"), targetPrefix), strings.Contains(r.Header.Get("Content-Type"), "json"):
		return JSON
	case strings.Contains(r.Header.Get("Accept"), "application/json"):
		return QueryJSON
	}
	return XML
}

// unknownOperation is an error with a form of its own in XML.
const unknownOperation = "UnknownOperationException"

const formType = "application/x-www-form-urlencoded"

// parse reads the action and its parameters.
func (c *Call) parse(r *http.Request, body []byte, hold func(n int64) error) error {
	if c.Form = FormOf(r); c.Form != JSON {
		return c.parseQuery(r, body, hold)
	}
	c.Action = strings.TrimPrefix(r.Header.Get("X-Amz-Target"), targetPrefix)
	if c.Action == "" || r.Method != http.MethodPost {
		return refuse("UnknownOperationException", "The requested operation is not recognized by the service.")
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	if err := holdParts(len(body), structural(body), hold); err != nil {
		return err
	}
	if !utf8.Valid(body) || input.HalfSurrogate(body) { // encoding/json would replace them
		return errCharacters
	}
	err := json.Unmarshal(body, &c.in)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return refuse("SerializationException", "%s cannot be a %s.", cmp.Or(wrong.Field, "The request"), wrong.Value)
	}
	if err != nil {
		return refuse("SerializationException", "The request is no JSON: %v", err)
	}
	return nil
}

// holdParts holds the memory of a request that is decoded, and of the messages made of it.
func holdParts(size, parts int, hold func(n int64) error) error {
	if parts > partsMax {
		return refuse("SerializationException", "The request has %d members, limit %d.", parts, partsMax)
	}
	return hold(2*int64(size) + partBytes*int64(parts))
}

// structural counts members and elements of a JSON text: what is in strings does not count.
func structural(body []byte) (n int) {
	quoted := false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '{' || c == '['):
			n++
		}
	}
	return n
}

// form is a request in the Query protocol.
type form struct{ url.Values }

func (c *Call) parseQuery(r *http.Request, body []byte, hold func(n int64) error) error {
	if err := holdParts(len(body), strings.Count(r.URL.RawQuery, "&")+bytes.Count(body, []byte("&")), hold); err != nil {
		return err
	}
	text := r.URL.RawQuery
	if len(body) > 0 {
		if text != "" {
			text += "&"
		}
		text += string(body)
	}
	values, err := url.ParseQuery(text)
	if err != nil {
		return refuse("SerializationException", "The request is no form: %v", err)
	}
	f := form{values}
	if c.Action = f.Get("Action"); c.Action == "" {
		return newError(http.StatusNotFound, unknownOperation, "The request must contain the parameter Action.")
	}
	in := &c.in
	in.QueueUrl, in.QueueName, in.QueueNamePrefix, in.NextToken = f.Get("QueueUrl"), f.Get("QueueName"), f.Get("QueueNamePrefix"), f.Get("NextToken")
	in.QueueOwnerAWSAccountId, in.TaskHandle = f.Get("QueueOwnerAWSAccountId"), f.Get("TaskHandle")
	in.SourceArn, in.DestinationArn = f.Get("SourceArn"), f.Get("DestinationArn")
	in.Attributes, in.Tags = f.pairs("Attribute", "Name"), f.pairs("Tag", "Key")
	in.TagKeys, in.AttributeNames = f.list("TagKey"), f.list("AttributeName")
	in.MessageSystemAttributeNames, in.MessageAttributeNames = f.list("MessageSystemAttributeName"), f.list("MessageAttributeName")
	in.ReceiveRequestAttemptId = f.text("ReceiveRequestAttemptId")
	for name, to := range map[string]**int{
		"MaxResults": &in.MaxResults, "MaxNumberOfMessages": &in.MaxNumberOfMessages, "WaitTimeSeconds": &in.WaitTimeSeconds,
		"MaxNumberOfMessagesPerSecond": &in.MaxNumberOfMessagesPerSecond,
	} {
		if *to, err = f.number(name); err != nil {
			return err
		}
	}
	if in.entry, err = f.entry(""); err != nil {
		return err
	}
	for i := 1; strings.HasSuffix(c.Action, "Batch"); i++ {
		prefix := c.Action + "RequestEntry." + strconv.Itoa(i) + "."
		if !f.Has(prefix+"Id") && !f.Has(prefix+"MessageBody") && !f.Has(prefix+"ReceiptHandle") {
			break
		}
		e, err := f.entry(prefix)
		if err != nil {
			return err
		}
		in.Entries = append(in.Entries, e)
	}
	return nil
}

func (f form) text(name string) *string {
	if !f.Has(name) {
		return nil
	}
	return new(f.Get(name))
}

func (f form) number(name string) (*int, error) {
	text := f.Get(name)
	if text == "" {
		return nil, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil, errParameter(name, text, "Must be an integer.")
	}
	return &n, nil
}

func (f form) list(name string) (all []string) {
	for i := 1; f.Has(name + "." + strconv.Itoa(i)); i++ {
		all = append(all, f.Get(name+"."+strconv.Itoa(i)))
	}
	return all
}

func (f form) pairs(name, key string) (all map[string]string) {
	for i := 1; f.Has(name + "." + strconv.Itoa(i) + "." + key); i++ {
		if all == nil {
			all = map[string]string{}
		}
		at := name + "." + strconv.Itoa(i) + "."
		all[f.Get(at+key)] = f.Get(at + "Value")
	}
	return all
}

func (f form) entry(prefix string) (e entry, err error) {
	e.Id, e.MessageBody, e.ReceiptHandle = f.Get(prefix+"Id"), f.text(prefix+"MessageBody"), f.text(prefix+"ReceiptHandle")
	e.MessageDeduplicationId, e.MessageGroupId = f.text(prefix+"MessageDeduplicationId"), f.text(prefix+"MessageGroupId")
	if e.DelaySeconds, err = f.number(prefix + "DelaySeconds"); err != nil {
		return e, err
	}
	if e.VisibilityTimeout, err = f.number(prefix + "VisibilityTimeout"); err != nil {
		return e, err
	}
	if e.MessageAttributes, err = f.attributes(prefix + "MessageAttribute."); err != nil {
		return e, err
	}
	e.MessageSystemAttributes, err = f.attributes(prefix + "MessageSystemAttribute.")
	return e, err
}

func (f form) attributes(prefix string) (all map[string]value, err error) {
	for i := 1; f.Has(prefix + strconv.Itoa(i) + ".Name"); i++ {
		at := prefix + strconv.Itoa(i) + "."
		v := value{DataType: f.Get(at + "Value.DataType"), StringValue: f.text(at + "Value.StringValue")}
		if text := f.text(at + "Value.BinaryValue"); text != nil {
			if v.BinaryValue, err = base64.StdEncoding.DecodeString(*text); err != nil {
				return nil, errValue("The attribute %.80q is no base64.", f.Get(at+"Name"))
			}
		}
		if all == nil {
			all = map[string]value{}
		}
		all[f.Get(at+"Name")] = v
	}
	return all, nil
}
