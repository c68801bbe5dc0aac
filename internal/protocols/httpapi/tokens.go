package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
)

const (
	// accessBodyMax bounds the bodies of POST /tokens and POST /acls.
	accessBodyMax = 256 << 10
	// tokenBytes and ruleBytes are upper bounds of the memory of a token, without its rules, and of
	// a rule in an answer, decoded and encoded.
	tokenBytes = 4 << 10
	ruleBytes  = 2 << 10
	// overlapMax bounds the overlap of a rotation.
	overlapMax = 366 * 24 * time.Hour
	// hostMax and patternMax bound the texts of a filter.
	hostMax    = 64
	patternMax = 512
)

// ofCluster is the resource of tokens and rules: a client needs describe to see them, alter to
// change them. It may see and rotate its own token without either.
func (by *caller) ofCluster(o access.Operation, own string) error {
	if own != "" && own == by.Name() && !by.Root() {
		return nil
	}
	return by.may(o, access.Cluster, access.ClusterName)
}

// changingCluster returns a context for a change that needs a right to the cluster, with a time
// limit.
func (a *API) changingCluster(r *http.Request, by *caller, o access.Operation) (context.Context, context.CancelFunc, error) {
	ctx, err := by.changing(r.Context(), o, access.Cluster, access.ClusterName)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.o.AckTimeout)
	return ctx, cancel, nil
}

// getTokens answers with all tokens, or with that of the client if it may not see others.
func (a *API) getTokens(w http.ResponseWriter, r *http.Request, by *caller) error {
	page, err := pageOf(r)
	if err != nil {
		return err
	}
	if err := a.fresh(r); err != nil {
		return err
	}
	a.readHeaders(w)
	t, l := a.b.Access(), a.newList(w, "tokens", page.most)
	for _, p := range t.Principals() {
		if !page.has(p.ID) || by.ofCluster(access.Describe, p.ID) != nil {
			continue
		}
		rules := t.RulesOf(p.ID)
		size := tokenBytes + int64(len(rules))*ruleBytes
		if err := l.add(r.Context(), p.ID, size, func() (any, error) { return a.tokenOf(p, rules), nil }); err != nil {
			return l.end(err)
		}
	}
	return l.end(nil)
}

// tokenOf returns a principal as in answers.
func (a *API) tokenOf(p *access.Principal, rules []access.Rule) *api.Token {
	out := &api.Token{
		ID: p.ID, Issuer: p.Issuer, Created: instantOfMicros(p.Created), Expires: instantOfMicros(p.Expires), Secrets: []api.TokenSecret{},
		Rules: auth.WireRules(rules),
	}
	out.Issuer = cmp.Or(out.Issuer, access.RootID)
	for i := range p.Secrets {
		s := &p.Secrets[i]
		secret := api.TokenSecret{
			Kind: "password", Created: instantOfMicros(s.Created), Expires: instantOfMicros(p.ExpiresAt(s)), Used: instantOfMicros(a.o.Auth.LastUse(p, s)),
		}
		if s.IsToken() {
			secret.Kind = "token"
		}
		if secret.Used.After(out.Used) {
			out.Used = secret.Used
		}
		out.Secrets = append(out.Secrets, secret)
	}
	return out
}

// instantOfMicros returns an instant, or the zero time for 0.
func instantOfMicros(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// getToken answers with one token.
func (a *API) getToken(w http.ResponseWriter, r *http.Request, by *caller) error {
	id := r.PathValue(VariableID)
	if err := by.ofCluster(access.Describe, id); err != nil {
		return err
	}
	t := a.b.Access()
	p := t.Principal(id)
	if p == nil {
		return auth.ErrUnknownToken
	}
	rules := t.RulesOf(id)
	memory, err := a.small(tokenBytes + int64(len(rules))*ruleBytes)
	if err != nil {
		return err
	}
	defer memory.Release()
	return a.writeState(w, http.StatusOK, a.tokenOf(p, rules))
}

// postToken creates a token. The answer is the only one that contains it.
func (a *API) postToken(w http.ResponseWriter, r *http.Request, by *caller) error {
	var in api.TokenSpec
	memory, err := a.decode(w, r, accessBodyMax, &in)
	if err != nil {
		return err
	}
	defer memory.Release()
	spec := auth.TokenSpec{ID: in.ID, Expires: in.Expires}
	if spec.Rules, err = auth.PresetRules(in.Preset, auth.OwnTopics{Events: a.o.EventsTopic, Firings: firingsTopic}); err != nil {
		return err
	}
	scopes, err := auth.ScopeRules(&in.Scopes)
	if err != nil {
		return err
	}
	more, err := auth.ParseRules(in.Rules)
	if err != nil {
		return err
	}
	for i := range more {
		if p := more[i].Principal; p != "" && p != in.ID {
			return &state.InvalidError{Field: "principal", Reason: "a rule of a new token is about the token: leave the member out"}
		}
	}
	spec.Rules = slices.Concat(spec.Rules, scopes, more)
	ctx, cancel, err := a.changingCluster(r, by, access.Alter)
	if err != nil {
		return err
	}
	defer cancel()
	p, token, err := a.o.Auth.CreateToken(ctx, by.Identity, spec)
	if err != nil {
		return err
	}
	out := &api.TokenCreated{Token: *a.tokenOf(p, a.b.Access().RulesOf(p.ID)), Secret: token}
	if principals, _ := a.b.Access().Len(); principals == 1 && !a.b.Audits() {
		out.Hint = "with --audit-topic audit the broker records who changes what (seb audit)"
	}
	return a.writeState(w, http.StatusCreated, out)
}

// changingToken prepares a change of the secrets of the token of a path, which needs no right for a client's own
// one. The caller calls cancel.
func (a *API) changingToken(r *http.Request, by *caller) (id string, ctx context.Context, cancel func(), err error) {
	id = r.PathValue(VariableID)
	if err := by.ofCluster(access.Alter, id); err != nil {
		return "", nil, nil, err
	}
	ctx = by.acting(r.Context(), nil)
	if id != by.Name() || by.Root() {
		if ctx, err = by.changing(ctx, access.Alter, access.Cluster, access.ClusterName); err != nil {
			return "", nil, nil, err
		}
	}
	ctx, cancel = context.WithTimeout(ctx, a.o.AckTimeout)
	return id, ctx, cancel, nil
}

// postTokenRotate replaces a token. Both are valid for the time of overlap.
func (a *API) postTokenRotate(w http.ResponseWriter, r *http.Request, by *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	overlap := q.Duration(httpconn.ParamOverlap, auth.DefaultOverlap, overlapMax)
	if q.Fault != nil {
		return q.Fault
	}
	id, ctx, cancel, err := a.changingToken(r, by)
	if err != nil {
		return err
	}
	defer cancel()
	p, token, err := a.o.Auth.RotateToken(ctx, by.Identity, id, overlap)
	if err != nil {
		return err
	}
	return a.writeState(w, http.StatusCreated, &api.TokenCreated{Token: *a.tokenOf(p, a.b.Access().RulesOf(p.ID)), Secret: token})
}

// deleteToken revokes a token. After the answer no data is sent to its client, and no record of it
// is stored.
func (a *API) deleteToken(w http.ResponseWriter, r *http.Request, by *caller) error {
	ctx, cancel, err := a.changingCluster(r, by, access.Alter)
	if err != nil {
		return err
	}
	defer cancel()
	if err := a.o.Auth.RevokeToken(ctx, r.PathValue(VariableID)); err != nil {
		return err
	}
	return a.changed(w)
}

// ruleFilter selects rules by their fields; nil selects any value.
type ruleFilter struct {
	principal, host *string
	resource        *access.ResourceType
	pattern         *pattern
	operation       *access.Operation
	deny            *bool
}

type pattern struct {
	name   string
	prefix bool
}

// parseRuleFilter reads a filter from the query.
func parseRuleFilter(q *httpconn.Params) *ruleFilter {
	f := &ruleFilter{
		principal: field(q, httpconn.ParamPrincipal, func(t string) (string, error) {
			if t != access.Any && !access.ValidID(t) {
				return t, errors.New("want an ID, or *")
			}
			return t, nil
		}),
		host:      field(q, httpconn.ParamHost, func(t string) (string, error) { return t, atMost(hostMax, t) }),
		resource:  field(q, httpconn.ParamResource, access.ParseResourceType),
		operation: field(q, httpconn.ParamOperation, access.ParseOperation),
		pattern: field(q, httpconn.ParamPattern, func(t string) (p pattern, err error) {
			if err = atMost(patternMax, t); err == nil {
				p.name, p.prefix, err = access.ParsePattern(t)
			}
			return p, err
		}),
	}
	if _, given := q.Text(httpconn.ParamDeny); given {
		f.deny = new(q.Bool(httpconn.ParamDeny))
	}
	return f
}

// atMost checks the length of a text.
func atMost(n int, text string) error {
	if len(text) > n {
		return fmt.Errorf("%d bytes, limit %d", len(text), n)
	}
	return nil
}

// field reads a parameter, or returns nil.
func field[T any](q *httpconn.Params, name string, parse func(string) (T, error)) *T {
	text, given := q.Text(name)
	if !given {
		return nil
	}
	v, err := parse(text)
	if err != nil {
		q.Fail(name, "%v", err)
	}
	return &v
}

// selected returns the rules that match.
func (f *ruleFilter) selected(all []access.Rule) []access.Rule {
	return slices.DeleteFunc(all, func(r access.Rule) bool {
		return !is(f.principal, r.Principal) || !is(f.host, r.Host) || !is(f.resource, r.Resource) || !is(f.operation, r.Operation) ||
			!is(f.pattern, pattern{r.Name, r.Prefix}) || !is(f.deny, r.Deny)
	})
}

func is[T comparable](want *T, v T) bool { return want == nil || *want == v }

// getRules answers with the rules that match a filter.
func (a *API) getRules(w http.ResponseWriter, r *http.Request, _ *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	f, page := parseRuleFilter(q), parsePage(q)
	after, err := ruleOf(page.after)
	if err != nil {
		q.Fail(httpconn.ParamAfter, "want the value of next: %v", err)
	}
	if q.Fault != nil {
		return q.Fault
	}
	if err := a.fresh(r); err != nil {
		return err
	}
	a.readHeaders(w)
	l := a.newList(w, "rules", page.most)
	for _, rule := range f.selected(a.b.Access().Rules()) {
		if rule.Compare(after) <= 0 || !page.names(rule.Principal, rule.Pattern()) {
			continue
		}
		out := auth.WireRules([]access.Rule{rule})[0]
		if err := l.add(r.Context(), nameOf(&out), ruleBytes, func() (any, error) { return &out, nil }); err != nil {
			return l.end(err)
		}
	}
	return l.end(nil)
}

// nameOf returns a rule as the parameter after.
func nameOf(r *api.Rule) string {
	text, err := json.Marshal(r)
	if err != nil {
		panic("httpapi: encode rule: " + err.Error()) // it holds strings
	}
	return string(text)
}

// ruleOf returns the rule of nameOf; that of "" is before all others.
func ruleOf(name string) (out access.Rule, err error) {
	if name == "" {
		return out, nil
	}
	var r api.Rule
	if err := httpconn.Decode([]byte(name), &r); err != nil {
		return out, err
	}
	return auth.ParseRule(&r)
}

// postRules adds rules: all of them, or none.
func (a *API) postRules(w http.ResponseWriter, r *http.Request, by *caller) error {
	var in api.Rules
	memory, err := a.decode(w, r, accessBodyMax, &in)
	if err != nil {
		return err
	}
	defer memory.Release()
	if len(in.Rules) == 0 {
		return &state.InvalidError{Field: "rules", Reason: "the list is empty"}
	}
	rules, err := auth.ParseRules(in.Rules)
	if err != nil {
		return err
	}
	ctx, cancel, err := a.changingCluster(r, by, access.Alter)
	if err != nil {
		return err
	}
	defer cancel()
	if err := a.o.Auth.ChangeRules(ctx, by.Identity, rules, nil); err != nil {
		return err
	}
	return a.writeState(w, http.StatusOK, &api.Rules{Rules: auth.WireRules(rules)})
}

// deleteRules removes the rules that match a filter, which must have a parameter.
func (a *API) deleteRules(w http.ResponseWriter, r *http.Request, by *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	f := parseRuleFilter(q)
	if *f == (ruleFilter{}) {
		q.Fail(httpconn.ParamPrincipal, "required, or another parameter: without one every rule would match")
	}
	if q.Fault != nil {
		return q.Fault
	}
	ctx, cancel, err := a.changingCluster(r, by, access.Alter)
	if err != nil {
		return err
	}
	defer cancel()
	rules := f.selected(a.b.Access().Rules())
	memory, err := a.small(int64(len(rules)) * ruleBytes)
	if err != nil {
		return err
	}
	defer memory.Release()
	if err := a.o.Auth.ChangeRules(ctx, by.Identity, nil, rules); err != nil {
		return err
	}
	return a.writeState(w, http.StatusOK, &api.Rules{Rules: auth.WireRules(rules)})
}
