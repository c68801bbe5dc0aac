// Package template builds the bodies of webhook messages: the JSON of webhook.Firing, or the output
// of a trigger's template with variables from the matched events.
//
// Templates have the syntax of text/template and are parsed by text/template/parse. The execution
// is our own: it calls only the functions listed here, bounds its steps and its output, and treats
// a missing value as an error unless the template provides a default. text/template itself looks up
// methods by name, which keeps the linker from removing unused ones, and cannot be stopped.
package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"regexp"
	"strconv"
	"strings"
	"text/template/parse"
	"time"
	"unicode/utf8"

	"github.com/sebbroker/seb/webhook"
)

// Limits of a template.
const (
	TemplateBytesMax = 64 << 10
	templateDepthMax = 100 // nesting of if, range, with and parentheses
)

// TypeJSON is the content type of the default body, and the default of templates.
const TypeJSON = "application/json"

// TemplateError is a fault of a template, by itself or with a message.
type TemplateError struct {
	Line, Col int // from 1; Col counts characters. 0 if the fault has no position
	Message   string
}

// Error is "line:col: message".
func (e *TemplateError) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("%d:%d: %s", e.Line, e.Col, e.Message)
}

// Template renders messages. It may be used concurrently.
type Template struct {
	text   string
	root   *parse.ListNode
	escape escape
}

// ParseTemplate parses a template whose output is of contentType. It refuses invalid syntax,
// unknown functions, fields and arguments, and event names that are not among events (nil: any).
// The error is a *TemplateError.
func ParseTemplate(text, contentType string, events []string) (*Template, error) {
	if len(text) > TemplateBytesMax {
		return nil, &TemplateError{Message: fmt.Sprintf("%d bytes, limit %d", len(text), TemplateBytesMax)}
	}
	if !utf8.ValidString(text) {
		return nil, &TemplateError{Message: "not UTF-8"}
	}
	t := &Template{text: text, escape: escapeFor(contentType)}
	tree, others, err := parseTree(text)
	if err != nil {
		return nil, t.syntaxError(err)
	}
	if others || tree.Root == nil {
		return nil, &TemplateError{Message: errNoTemplates.Error()}
	}
	t.root = tree.Root
	c := checker{t: t, events: events}
	if err := c.list(t.root, true); err != nil {
		return nil, err
	}
	return t, nil
}

// Check is ParseTemplate followed by an execution with sample, if that is not nil.
func Check(text, contentType string, events []string, sample *Message) error {
	t, err := ParseTemplate(text, contentType, events)
	if err != nil || sample == nil {
		return err
	}
	_, err = t.Execute(sample)
	return err
}

const templateName = "t"

// parseTree leaves functions to the checker, which knows their position. others reports definitions
// of further templates.
func parseTree(text string) (tree *parse.Tree, others bool, err error) {
	tree = parse.New(templateName)
	tree.Mode = parse.SkipFuncCheck
	set := make(map[string]*parse.Tree)
	_, err = tree.Parse(text, "", "", set)
	delete(set, templateName)
	return tree, len(set) > 0, err
}

// parserPrefix is the prefix of the parser's messages: template: name:line:
var parserPrefix = regexp.MustCompile(`^template: ` + templateName + `:(\d+)(?::\d+)?: `)

const parserEOF = "unexpected EOF"

// syntaxError converts an error of the parser, which has only a line, and the last line for an
// unclosed block. The reported position is the first action with which the text cannot be parsed.
func (t *Template) syntaxError(err error) error {
	message := parserPrefix.ReplaceAllString(err.Error(), "")
	if strings.Contains(message, parserEOF) {
		message += ": an if, range or with has no {{end}}"
		return t.errorAt(len(t.text), message)
	}
	starts := actions(t.text)
	low, high := 0, len(starts)-1 // the first action that fails is in [low, high]
	for low < high {
		middle := (low + high) / 2
		_, _, err := parseTree(t.text[:starts[middle+1]])
		if err != nil && !strings.Contains(err.Error(), parserEOF) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	if len(starts) == 0 {
		return t.errorAt(0, message)
	}
	return t.errorAt(starts[low], message)
}

// actions are the positions of actions.
func actions(text string) []int {
	var starts []int
	for at := 0; ; {
		i := strings.Index(text[at:], "{{")
		if i < 0 {
			return starts
		}
		starts = append(starts, at+i)
		at += i + len("{{")
	}
}

// errorAt is an error at a byte of the text.
func (t *Template) errorAt(at int, message string) *TemplateError {
	before := t.text[:min(at, len(t.text))]
	line := strings.LastIndexByte(before, '\n') + 1
	return &TemplateError{
		Line: strings.Count(before, "\n") + 1, Col: utf8.RuneCountInString(before[line:]) + 1, Message: cut(message),
	}
}

func (t *Template) errorf(n parse.Node, format string, args ...any) *TemplateError {
	return t.errorAt(t.start(n), fmt.Sprintf(format, args...))
}

// start is the position of a node. The parser reports that of the second name for fields of fields.
func (t *Template) start(n parse.Node) int {
	at, first := int(n.Position()), ""
	switch n := n.(type) {
	case *parse.FieldNode:
		if len(n.Ident) > 1 {
			first = "." + n.Ident[0]
		}
	case *parse.VariableNode:
		if len(n.Ident) > 1 {
			first = n.Ident[0]
		}
	}
	if strings.HasSuffix(t.text[:min(at, len(t.text))], first) {
		at -= len(first)
	}
	return at
}

// escape is the escaping of strings in the output, so that they cannot end the surrounding syntax.
type escape uint8

const (
	escapeNothing escape = iota
	escapeJSON           // as the inside of a JSON string
	escapeMarkup         // HTML and XML
	escapeForm           // application/x-www-form-urlencoded
)

func escapeFor(contentType string) escape {
	kind, _, _ := mime.ParseMediaType(contentType)
	switch {
	case kind == TypeJSON || strings.HasSuffix(kind, "+json"):
		return escapeJSON
	case kind == "text/html" || kind == "text/xml" || kind == "application/xml" || strings.HasSuffix(kind, "+xml"):
		return escapeMarkup
	case kind == "application/x-www-form-urlencoded":
		return escapeForm
	}
	return escapeNothing
}

// cut bounds a message, because it may quote the template.
func cut(message string) string {
	const shown = 512
	if len(message) > shown {
		message = strings.ToValidUTF8(message[:shown], "") + "…"
	}
	return message
}

// quoted is a quoted name, truncated.
func quoted(s string) string {
	const shown = 64
	if len(s) > shown {
		s = strings.ToValidUTF8(s[:shown], "") + "…"
	}
	return strconv.Quote(s)
}

var errNoTemplates = errors.New("define, block and template are not available")

const (
	// BytesMax is the largest body. Receivers should accept four times as much.
	BytesMax = webhook.BodyBytesMax / 4
	// WitnessBytesMax bounds the data of a message's events that a template may use.
	WitnessBytesMax = 1 << 20

	retractedSuffix = "-retracted"
	instantLayout   = "2006-01-02T15:04:05.000Z07:00" // with the milliseconds of the log
)

// State reports whether a message is a firing or a retraction.
type State string

// The states of a message.
const (
	Fired     State = "fired"
	Retracted State = "retracted"
)

// Message is one firing of a trigger, as sent.
type Message struct {
	// ID is the ID of the firing; a retraction has that of its firing.
	ID      string
	Trigger string // name
	Version int    // of the trigger
	Entity  string
	At      time.Time // time of the firing or retraction
	State   State
	Witness []webhook.Event // matched events, in the order of the log
	Attempt int             // from 1
}

// MessageID identifies the message for the receiver, and is the same in every attempt: the firing's
// ID, with a suffix for its retraction, because receivers drop repeated IDs.
func (m *Message) MessageID() string {
	if m.State == Retracted {
		return m.ID + retractedSuffix
	}
	return m.ID
}

// Default builds the JSON of webhook.Firing. An error is permanent: the result depends only on the
// message.
func Default(m *Message) ([]byte, error) {
	if m.State != Fired && m.State != Retracted {
		return nil, fmt.Errorf("unknown state %.32q, want %s or %s", string(m.State), Fired, Retracted)
	}
	if n := m.dataBytes(); n > BytesMax {
		return nil, fmt.Errorf("the events have %d bytes of data, limit %d for a body", n, BytesMax)
	}
	f := webhook.Firing{
		Type: webhook.TypeFired, Timestamp: instant(m.At), Version: webhook.Version, ID: m.ID, Attempt: m.Attempt,
		Data: webhook.FiringData{Trigger: m.Trigger, TriggerVersion: m.Version, Entity: m.Entity, Witness: []webhook.Event{}},
	}
	if m.State == Retracted {
		f.Type = webhook.TypeRetracted
	}
	for _, e := range m.Witness {
		e.Time = instant(e.Time)
		f.Data.Witness = append(f.Data.Witness, e)
	}
	body, err := encodeJSON(f)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the data of an event is not JSON: %w", err)
	case len(body) > BytesMax:
		return nil, errBodyTooLarge
	}
	return body, nil
}

var errBodyTooLarge = errors.New("the body exceeds 256 KiB")

func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func (m *Message) dataBytes() int {
	n := 0
	for _, e := range m.Witness {
		n += len(e.Data)
	}
	return n
}

// encodeJSON does not escape <, > and &, because the receiver is not a browser.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
