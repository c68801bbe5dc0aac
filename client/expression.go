package client

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/sebbroker/seb/api"
)

// ParseExpression parses an expression, as text or in JSON form, which begins with a brace. The Text
// of an expression in JSON form is written like source, the text of a similar expression; "": it is
// canonical. An *Error has the position of the error in the expression, or in source, as its Detail says.
func (c *Client) ParseExpression(ctx context.Context, expr, source string) (Expression, error) {
	var given struct {
		Expr   json.RawMessage `json:"expr"`
		Source string          `json:"source,omitempty"`
	}
	var out Expression
	var err error
	if given.Expr, err = expression(expr); err != nil {
		return out, rejected(err)
	}
	given.Source = source
	body, err := json.Marshal(&given)
	if err != nil {
		return out, rejected(err)
	}
	err = c.call(ctx, &request{method: http.MethodPost, path: "/drip/parse", body: body, header: map[string]string{"Content-Type": api.JSON}}, &out)
	return out, err
}

// Stories returns short histories of one entity that show what an expression means: text, or the
// JSON form, which begins with a brace. Some fire, some do not, and some are not decided yet. An
// *Error about the expression has the position of the error.
func (c *Client) Stories(ctx context.Context, expr string) (Stories, error) {
	var out Stories
	value, err := expression(expr)
	if err != nil {
		return out, rejected(err)
	}
	body, err := json.Marshal(map[string]json.RawMessage{"expr": value})
	if err != nil {
		return out, rejected(err)
	}
	err = c.call(ctx, &request{
		method: http.MethodPost, path: "/drip/stories", body: body, header: map[string]string{"Content-Type": api.JSON},
	}, &out)
	return out, err
}

// expression returns an expression as a member of a request: a string, or its JSON form.
func expression(text string) (json.RawMessage, error) {
	if strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") {
		return json.RawMessage(text), nil
	}
	return json.Marshal(text)
}
