package sqs

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sebbroker/seb/internal/protocols/encoding"
)

// namespace is that of answers in XML.
const namespace = "http://queue.amazonaws.com/doc/2012-11-05/"

// Answer is the answer to a request, in its protocol.
type Answer struct {
	Status      int
	ContentType string
	QueryError  string // the header x-amzn-query-error; "": none
	Body        []byte
}

// output writes the members of an answer, as JSON or XML.
type output struct {
	b     []byte
	xml   bool
	named bool // JSON of the Query protocol: a map is a list of keys and values
	comma bool
}

// open begins a member.
func (o *output) open(name string) {
	if o.xml {
		o.b = append(append(append(o.b, '<'), name...), '>')
		return
	}
	if o.comma {
		o.b = append(o.b, ',')
	}
	o.b = append(append(append(o.b, '"'), name...), `":`...)
	o.comma = true
}

func (o *output) close(name string) {
	if o.xml {
		o.b = append(append(append(o.b, "</"...), name...), '>')
	}
}

// value appends a text.
func (o *output) value(v string) {
	if !o.xml {
		o.b = encoding.AppendString(o.b, v)
		return
	}
	w := bytes.NewBuffer(o.b)
	_ = xml.EscapeText(w, []byte(v)) // of a Buffer
	o.b = w.Bytes()
}

func (o *output) text(name, v string) {
	o.open(name)
	o.value(v)
	o.close(name)
}

// textIf appends a text that is not "".
func (o *output) textIf(name, v string) {
	if v != "" {
		o.text(name, v)
	}
}

func (o *output) blob(name string, v []byte) { o.text(name, base64.StdEncoding.EncodeToString(v)) }

func (o *output) raw(name, v string) {
	o.open(name)
	o.b = append(o.b, v...)
	o.close(name)
}

func (o *output) number(name string, n int64) { o.raw(name, strconv.FormatInt(n, 10)) }

func (o *output) truth(name string, v bool) { o.raw(name, strconv.FormatBool(v)) }

// object appends a member that each writes.
func (o *output) object(name string, each func()) {
	o.open(name)
	o.braces(each)
	o.close(name)
}

func (o *output) braces(each func()) {
	if o.xml {
		each()
		return
	}
	o.b, o.comma = append(o.b, '{'), false
	each()
	o.b, o.comma = append(o.b, '}'), true
}

// list appends n objects: in JSON an array, in XML elements of their own name.
func (o *output) list(name, element string, n int, each func(i int)) {
	if o.xml {
		for i := range n {
			o.object(element, func() { each(i) })
		}
		return
	}
	o.open(o.listName(name))
	o.b, o.comma = append(o.b, '['), false
	for i := range n {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.braces(func() { each(i) })
	}
	o.b, o.comma = append(o.b, ']'), true
}

// listName is the name of a list, which JSON of the Query protocol has in lower case for some.
func (o *output) listName(name string) string {
	if o.named && (name == "Messages" || name == "QueueUrls") {
		return strings.ToLower(name[:1]) + name[1:]
	}
	return name
}

// texts is list for texts.
func (o *output) texts(name, element string, list []string) {
	if o.xml {
		for _, v := range list {
			o.text(element, v)
		}
		return
	}
	o.open(o.listName(name))
	o.b = append(o.b, '[')
	for i, v := range list {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.value(v)
	}
	o.b = append(o.b, ']')
}

// pairs appends a map of texts: in JSON an object, in XML elements with a key and a value. An empty one is
// left out.
func (o *output) pairs(name, element, key string, m map[string]string) {
	o.mapped(name, element, key, slices.Sorted(maps.Keys(m)), func(k string) { o.value(m[k]) })
}

// mapped is pairs with values that each writes.
func (o *output) mapped(name, element, key string, keys []string, each func(k string)) {
	if len(keys) == 0 {
		return
	}
	if o.xml || o.named {
		o.list(name, element, len(keys), func(i int) {
			o.text(key, keys[i])
			o.open("Value")
			each(keys[i])
			o.close("Value")
		})
		return
	}
	o.object(name, func() {
		for i, k := range keys {
			if i > 0 {
				o.b = append(o.b, ',')
			}
			o.b = append(encoding.AppendString(o.b, k), ':')
			each(k)
		}
	})
}

// contentTypes of answers.
const (
	contentJSON      = "application/x-amz-json-1.0"
	contentXML       = "text/xml"
	contentQueryJSON = "application/json"
)

// answer returns the answer whose members write writes.
func (c *Call) answer(write func(o *output)) *Answer {
	o := &output{xml: c.Form == XML, named: c.Form == QueryJSON, b: make([]byte, 0, 512)}
	if c.Form == JSON {
		o.braces(func() { write(o) })
		return &Answer{Status: http.StatusOK, ContentType: contentJSON, Body: o.b}
	}
	whole := func() {
		if c.action.result {
			o.object(c.Action+"Result", func() { write(o) })
			if before, none := bytes.CutSuffix(o.b, []byte("<"+c.Action+"Result></"+c.Action+"Result>")); none {
				o.b = append(before, "<"+c.Action+"Result/>"...)
			}
		}
		o.object("ResponseMetadata", func() { o.text("RequestId", c.RequestID) })
	}
	if c.Form == QueryJSON {
		o.braces(func() { o.object(c.Action+"Response", whole) })
		return &Answer{Status: http.StatusOK, ContentType: contentQueryJSON, Body: o.b}
	}
	o.b = append(o.b, `<?xml version="1.0"?><`+c.Action+`Response xmlns="`+namespace+`">`...)
	whole()
	o.close(c.Action + "Response")
	return &Answer{Status: http.StatusOK, ContentType: contentXML, Body: o.b}
}

// Fault returns the answer to an error.
func Fault(e *Error, form Form, requestID string) *Answer {
	side := "Sender"
	if e.ours {
		side = "Receiver"
	}
	if form == JSON {
		o := &output{}
		o.braces(func() {
			o.text("__type", "com.amazonaws.sqs#"+e.Type)
			o.text("message", e.Message)
		})
		return &Answer{Status: e.Status, ContentType: contentJSON, QueryError: e.Query + ";" + side, Body: o.b}
	}
	if e.Type == unknownOperation && e.Status == http.StatusNotFound {
		return &Answer{Status: e.Status, ContentType: contentXML, Body: []byte("<UnknownOperationException/>\n")}
	}
	message := e.Message
	if e.query != "" {
		message = e.query
	}
	if form == QueryJSON {
		o := &output{}
		o.braces(func() {
			o.object("Error", func() {
				o.text("Code", e.Query)
				o.text("Message", message)
				o.text("Type", side)
			})
			o.text("RequestId", requestID)
		})
		return &Answer{Status: e.Status, ContentType: contentQueryJSON, Body: o.b}
	}
	o := &output{xml: true, b: []byte(`<?xml version="1.0"?><ErrorResponse xmlns="` + namespace + `">`)}
	o.object("Error", func() {
		o.text("Type", side)
		o.text("Code", e.Query)
		o.text("Message", message)
		o.b = append(o.b, "<Detail/>"...)
	})
	o.text("RequestId", requestID)
	o.close("ErrorResponse")
	return &Answer{Status: e.Status, ContentType: contentXML, Body: o.b}
}
