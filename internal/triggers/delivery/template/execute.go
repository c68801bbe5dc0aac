package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"text/template/parse"
	"time"
)

const (
	// stepsMax bounds the work of an execution: each evaluated node is a step, and so is each
	// processed 64 bytes. That is a few milliseconds to a quarter of a second.
	stepsMax  = 100_000
	stepBytes = 64

	variablesMax = 1000
)

// execution is one execution of a template.
type execution struct {
	t         *Template
	message   *Message
	witness   witness
	variables []variable
	steps     int
	out       []byte
}

type variable struct {
	name  string
	value any
}

// Control flow of range.
var (
	errBreak    = errors.New("break")
	errContinue = errors.New("continue")
)

// Execute builds the body of a message. BytesMax bounds its size, stepsMax its work. The error is a
// *TemplateError; the result depends only on the message.
func (t *Template) Execute(m *Message) ([]byte, error) {
	if n := m.dataBytes(); n > WitnessBytesMax {
		return nil, &TemplateError{Message: fmt.Sprintf("the events have %d bytes of data, limit %d for templates", n, WitnessBytesMax)}
	}
	r := &execution{t: t, message: m, witness: make(witness, len(m.Witness))}
	for i := range m.Witness {
		r.witness[i] = &event{Event: &m.Witness[i]}
	}
	r.variables = append(r.variables, variable{"$", m})
	if err := r.list(m, t.root); err != nil {
		return nil, err
	}
	if t.escape == escapeJSON && !json.Valid(r.out) {
		return nil, &TemplateError{Message: "the output is not valid JSON: " + jsonFault(r.out)}
	}
	return r.out, nil
}

// jsonFault describes why a body is not JSON, without quoting it.
func jsonFault(body []byte) string {
	var raw json.RawMessage
	err := json.Unmarshal(body, &raw)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("%v, at byte %d", syntax, syntax.Offset)
	}
	return "cannot be parsed"
}

var errSteps = fmt.Errorf("more than %d steps", stepsMax)

// spend counts a step and the processed bytes.
func (r *execution) spend(bytes int) error {
	if r.steps += 1 + bytes/stepBytes; r.steps > stepsMax {
		return errSteps
	}
	return nil
}

// at adds the position of n to an error without a position.
func (r *execution) at(n parse.Node, err error) error {
	if err == nil || err == errBreak || err == errContinue {
		return err
	}
	if placed, ok := errors.AsType[*TemplateError](err); ok {
		return placed
	}
	return r.t.errorf(n, "%v", err)
}

func (r *execution) list(dot any, l *parse.ListNode) error {
	if l == nil {
		return nil
	}
	scope := len(r.variables)
	defer func() { r.variables = r.variables[:scope] }()
	for _, n := range l.Nodes {
		if err := r.at(n, r.node(dot, n)); err != nil {
			return err
		}
	}
	return nil
}

func (r *execution) node(dot any, n parse.Node) error {
	if err := r.spend(0); err != nil {
		return err
	}
	switch n := n.(type) {
	case *parse.TextNode:
		return r.write(n.Text)
	case *parse.ActionNode:
		v, err := r.pipe(dot, n.Pipe)
		if err != nil || len(n.Pipe.Decl) > 0 {
			return err
		}
		return r.print(v)
	case *parse.IfNode:
		return r.branch(dot, &n.BranchNode, false)
	case *parse.WithNode:
		return r.branch(dot, &n.BranchNode, true)
	case *parse.RangeNode:
		return r.loop(dot, n)
	case *parse.BreakNode:
		return errBreak
	case *parse.ContinueNode:
		return errContinue
	case *parse.CommentNode:
		return nil
	}
	return errNoTemplates // the checker refuses all others
}

func (r *execution) branch(dot any, b *parse.BranchNode, with bool) error {
	scope := len(r.variables)
	defer func() { r.variables = r.variables[:scope] }()
	v, err := r.pipe(dot, b.Pipe)
	if err == nil {
		err = r.spend(size(v))
	}
	switch {
	case err != nil:
		return err
	case !truth(v):
		return r.list(dot, b.ElseList)
	case with:
		return r.list(v, b.List)
	}
	return r.list(dot, b.List)
}

// loop iterates over a list, or over an object in the order of its keys. A missing value is an
// error, null is empty.
func (r *execution) loop(dot any, n *parse.RangeNode) error {
	scope := len(r.variables)
	defer func() { r.variables = r.variables[:scope] }()
	v, err := r.commands(dot, n.Pipe)
	if err != nil {
		return err
	}
	var keys, elements []any
	switch v := v.(type) {
	case missing:
		return v
	case nil:
	case []any:
		elements = v
	case witness:
		for _, e := range v {
			elements = append(elements, e)
		}
	case map[string]any:
		if err := r.spend(len(v) * stepBytes); err != nil { // sorts all, even if it breaks early
			return err
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			keys, elements = append(keys, k), append(elements, v[k])
		}
	default:
		return fmt.Errorf("range: want a list or an object, got %s", kindOf(v))
	}
	if len(elements) == 0 {
		return r.list(dot, n.ElseList)
	}
	for i, element := range elements {
		r.variables = r.variables[:scope]
		var key any = number(int64(i))
		if keys != nil {
			key = keys[i]
		}
		r.assign(n.Pipe, key, element)
		if err := r.spend(0); err != nil {
			return err
		}
		switch err := r.list(element, n.List); err {
		case nil, errContinue:
		case errBreak:
			return nil
		default:
			return err
		}
	}
	return nil
}

// assign sets the variables of a range: the element, or key and element.
func (r *execution) assign(p *parse.PipeNode, key, element any) {
	values := []any{element}
	if len(p.Decl) > 1 {
		values = []any{key, element}
	}
	for i, d := range p.Decl {
		r.set(d.Ident[0], values[i], p.IsAssign)
	}
}

// set creates a variable, or changes the innermost one of that name.
func (r *execution) set(name string, v any, change bool) {
	if change {
		for i := len(r.variables) - 1; i >= 0; i-- {
			if r.variables[i].name == name {
				r.variables[i].value = v
				return
			}
		}
	}
	r.variables = append(r.variables, variable{name, v})
}

// pipe evaluates commands and sets the variable before them, if there is one.
func (r *execution) pipe(dot any, p *parse.PipeNode) (any, error) {
	v, err := r.commands(dot, p)
	if err != nil {
		return nil, err
	}
	if len(r.variables) > variablesMax {
		return nil, fmt.Errorf("more than %d variables", variablesMax)
	}
	if len(p.Decl) == 1 {
		r.set(p.Decl[0].Ident[0], v, p.IsAssign)
	}
	return v, nil
}

// commands evaluates from left to right: the value of each is the last argument of the next.
func (r *execution) commands(dot any, p *parse.PipeNode) (v any, err error) {
	for i, cmd := range p.Cmds {
		var piped []any
		if i > 0 {
			piped = []any{v}
		}
		if v, err = r.command(dot, cmd, piped); err != nil {
			return nil, r.at(cmd, err)
		}
	}
	return v, nil
}

func (r *execution) command(dot any, cmd *parse.CommandNode, piped []any) (any, error) {
	if name, ok := cmd.Args[0].(*parse.IdentifierNode); ok {
		v, err := r.call(dot, name.Ident, cmd.Args[1:], piped)
		return v, r.at(name, err)
	}
	return r.operand(dot, cmd.Args[0])
}

func (r *execution) operand(dot any, n parse.Node) (any, error) {
	v, err := r.value(dot, n)
	return v, r.at(n, err)
}

func (r *execution) value(dot any, n parse.Node) (any, error) {
	if err := r.spend(0); err != nil {
		return nil, err
	}
	switch n := n.(type) {
	case *parse.DotNode:
		return dot, nil
	case *parse.FieldNode:
		return r.fields(dot, n.Ident, "")
	case *parse.VariableNode:
		for i := len(r.variables) - 1; i >= 0; i-- {
			if r.variables[i].name == n.Ident[0] {
				path := n.Ident[0]
				if path == "$" {
					path = ""
				}
				return r.fields(r.variables[i].value, n.Ident[1:], path)
			}
		}
		return nil, fmt.Errorf("unknown variable %s", n.Ident[0])
	case *parse.ChainNode:
		v, err := r.operand(dot, n.Node)
		if err != nil {
			return nil, err
		}
		return r.fields(v, n.Field, "(…)")
	case *parse.PipeNode:
		return r.pipe(dot, n)
	case *parse.IdentifierNode:
		return r.call(dot, n.Ident, nil, nil)
	case *parse.StringNode:
		return n.Text, nil
	case *parse.BoolNode:
		return n.True, nil
	case *parse.NumberNode:
		if n.IsInt {
			return number(n.Int64), nil
		}
		if math.IsInf(n.Float64, 0) || math.IsNaN(n.Float64) {
			return nil, errors.New("number too large")
		}
		short := json.Number(strconv.FormatFloat(n.Float64, 'g', -1, 64))
		if c, err := compareNumbers(short, json.Number(n.Text)); err == nil && c != 0 {
			return json.Number(n.Text), nil // a double rounds it
		}
		return short, nil
	}
	return nil, fmt.Errorf("%s is not available", quoted(n.String()))
}

// fields follows names from v; path is the name of v.
func (r *execution) fields(v any, names []string, path string) (any, error) {
	for _, name := range names {
		path += "." + name
		var err error
		if v, err = r.field(v, name, path); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// print writes a value with the escaping of the content type.
func (r *execution) print(v any) error {
	switch v := v.(type) {
	case missing:
		return v
	case nil:
		return errors.New("value is null: use default for another value, or json to write null")
	case safe:
		return r.write([]byte(v))
	case string:
		return r.escaped(v)
	case json.Number:
		return r.escaped(v.String())
	case bool:
		return r.escaped(strconv.FormatBool(v))
	case time.Time:
		return r.escaped(instant(v).Format(instantLayout))
	}
	if r.t.escape == escapeJSON {
		return fmt.Errorf("value is %s: write it with json", kindOf(v))
	}
	text, err := r.json(v)
	if err != nil {
		return err
	}
	return r.escaped(text)
}

// escaped writes a string so that it cannot end the surrounding syntax.
func (r *execution) escaped(s string) error {
	if err := r.spend(len(s)); err != nil {
		return err
	}
	if len(r.out)+len(s) > BytesMax {
		return errBodyTooLarge
	}
	switch r.t.escape {
	case escapeJSON:
		encoded, err := encodeJSON(s)
		if err != nil {
			return err
		}
		return r.write(encoded[1 : len(encoded)-1])
	case escapeMarkup:
		s = html.EscapeString(s)
	case escapeForm:
		s = url.QueryEscape(s)
	}
	return r.write([]byte(s))
}

// json encodes a value, and counts its bytes as steps.
func (r *execution) json(v any) (string, error) {
	if m, ok := v.(*Message); ok {
		body, err := Default(m)
		v = json.RawMessage(body)
		if err != nil {
			return "", err
		}
	}
	encoded, err := encodeJSON(plain(v))
	if err != nil {
		return "", err
	}
	return string(encoded), r.spend(len(encoded))
}

func (r *execution) write(b []byte) error {
	if len(r.out)+len(b) > BytesMax {
		return errBodyTooLarge
	}
	if err := r.spend(len(b)); err != nil {
		return err
	}
	r.out = append(r.out, b...)
	return nil
}
