package httpapi

import (
	"encoding/json"
	"net/http"
	"unicode/utf8"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/problem"
	"github.com/sebbroker/seb/internal/trigger/explain"
)

const (
	// expressionBodyMax bounds the body of POST /drip/parse: the longest expression in JSON form, and a
	// text whose bytes are all escaped.
	expressionBodyMax = driplang.MaxJSON + 6*driplang.MaxText + 1<<10
	// parsedShare bounds the memory of an expression with its sentence and spans, as a multiple of
	// its text, and that of a source. Deep expressions have long numbers and pointers.
	parsedShare = 512
	// storiesBytes bounds the memory of stories beside their expression.
	storiesBytes = 2 << 20
)

// postParse answers POST /drip/parse. It parses an expression that the client is editing.
func (a *API) postParse(w http.ResponseWriter, r *http.Request, _ *caller) error {
	return a.answerExpression(w, r, 0, func(body []byte) (any, error) { return parsed(body) })
}

// postStories answers POST /drip/stories. It shows what an expression means by short histories.
func (a *API) postStories(w http.ResponseWriter, r *http.Request, _ *caller) error {
	return a.answerExpression(w, r, storiesBytes, func(body []byte) (any, error) {
		var given struct {
			Expr json.RawMessage `json:"expr"`
		}
		e, err := decodeExpression(body, &given, &given.Expr)
		if err != nil {
			return nil, err
		}
		out, err := explain.Stories(e)
		if err != nil {
			return nil, problem.BadField("expr", "%s", err)
		}
		return out, nil
	})
}

// answerExpression answers a request whose body has an expression. more is the memory that the
// answer takes beside the expression.
func (a *API) answerExpression(w http.ResponseWriter, r *http.Request, more int64, answer func(body []byte) (any, error)) error {
	in := httpconn.Body{W: w, R: r, Timeout: a.pace, Max: expressionBodyMax, Memory: budget.Arena{Class: a.produce, Buffers: a.buffers}}
	defer in.Memory.Release()
	if err := in.Open(); err != nil {
		return err
	}
	body, err := in.ReadAll()
	if err != nil {
		return err
	}
	if err := in.Memory.Hold(parsedShare*min(int64(len(body)), 2*driplang.MaxText) + more); err != nil {
		return err
	}
	out, err := answer(body)
	if err != nil {
		return err
	}
	return a.writeState(w, http.StatusOK, out)
}

// decodeExpression decodes a body into given, and parses its member expr.
func decodeExpression(body []byte, given any, expr *json.RawMessage) (e driplang.Expr, err error) {
	if !utf8.Valid(body) {
		return e, problem.BadField("body", "not valid UTF-8")
	}
	if err := httpconn.Decode(body, given); err != nil {
		return e, err
	}
	if *expr == nil {
		return e, problem.BadField("expr", "missing")
	}
	if e, err = explain.ParseExpr(*expr); err != nil {
		return e, questionFault(err)
	}
	return e, nil
}

func parsed(body []byte) (*api.Expression, error) {
	var given struct {
		Expr   json.RawMessage `json:"expr"`
		Source *string         `json:"source"` // text of an expression in JSON form before an edit
	}
	e, err := decodeExpression(body, &given, &given.Expr)
	if err != nil {
		return nil, err
	}
	out := &api.Expression{Text: e.String(), Names: e.Names(), Warnings: []api.ExpressionWarning{}, Spans: []api.ExpressionSpan{}}
	switch {
	case given.Expr[0] == '"':
		if err := json.Unmarshal(given.Expr, &out.Text); err != nil {
			return nil, err
		}
	case given.Source != nil:
		if out.Text, err = e.TextLike(*given.Source); err != nil {
			return nil, expressionFault("source", err)
		}
	}
	if e, err = driplang.Parse(out.Text); err != nil { // for its spans
		return nil, err
	}
	if out.Expr, err = e.MarshalJSON(); err != nil {
		return nil, err
	}
	out.Sentence = e.Sentence()
	for _, w := range e.Warnings() {
		out.Warnings = append(out.Warnings, api.ExpressionWarning{Kind: string(w.Kind), Message: w.Message, Pointer: w.Pointer})
	}
	for _, s := range e.Spans() {
		out.Spans = append(out.Spans, api.ExpressionSpan{Pointer: s.Pointer, From: s.From, To: s.To})
	}
	return out, nil
}
