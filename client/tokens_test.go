package client_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestTokens(t *testing.T) {
	address, stop := startBroker()
	t.Cleanup(stop)
	ctx := t.Context()
	with := func(key string) *client.Client {
		c := must.Get(client.New(address, client.Options{APIKey: key, RetryTime: -1}))(t)
		t.Cleanup(c.Close)
		return c
	}
	root := with(testKey)
	made, err := root.CreateToken(ctx, client.TokenSpec{ID: "shop", Expires: time.Now().Add(time.Hour), Scopes: client.Scopes{Write: []string{"orders.*"}, Admin: []string{"orders.*"}}})
	must.NoError(t, err)
	check.ErrorIsf(t, check.Err(root.CreateToken(ctx, client.TokenSpec{ID: "shop"})), client.ErrTokenExists, "the same ID again")
	shop := with(made.Secret)
	check.NoErrorf(t, check.Err(shop.Produce(ctx, "orders.eu", []record.Record{{Value: []byte("v")}}, client.ProduceOptions{})), "produce")
	if _, err := shop.Produce(ctx, "other", []record.Record{{Value: []byte("v")}}, client.ProduceOptions{}); !errors.Is(err, client.ErrForbidden) || !errors.Is(err, client.ErrRejected) {
		t.Errorf("produce to another topic: %v", err)
	}
	if own, err := shop.Tokens(ctx); err != nil || len(own) != 1 || own[0].ID != "shop" || own[0].Used.IsZero() {
		t.Errorf("own tokens: %+v %v", own, err)
	}

	rule := client.Rule{Principal: "shop", Resource: "group", Pattern: "g", Operation: "read"}
	check.NoError(t, root.AddRules(ctx, []client.Rule{rule}))
	check.ErrorIsf(t, shop.AddRules(ctx, []client.Rule{rule}), client.ErrForbidden, "rules by a token without the scope cluster")
	if list, err := root.Rules(ctx, client.RuleFilter{Principal: "shop", Resource: "group"}); err != nil || len(list) != 1 || list[0] != rule {
		t.Errorf("rules: %+v %v", list, err)
	}
	if list, err := root.RemoveRules(ctx, client.RuleFilter{Resource: "group", Deny: new(false)}); err != nil || len(list) != 1 {
		t.Errorf("removed: %+v %v", list, err)
	}

	next := must.Get(shop.RotateToken(ctx, "shop", client.DefaultOverlap))(t)
	check.NoErrorf(t, check.Err(with(next.Secret).Token(ctx, "shop")), "with the new secret")
	check.NoError(t, root.RevokeToken(ctx, "shop"))
	check.ErrorIsf(t, check.Err(shop.Topic(ctx, "orders.eu")), client.ErrUnauthorized, "after the revocation")
	check.ErrorIsf(t, root.RevokeToken(ctx, "shop"), client.ErrUnknownToken, "second revocation")
}

// TestQuotas: a call over the quota of its key fails with the time to wait, and a client that may
// retry waits for it.
func TestQuotas(t *testing.T) {
	t.Parallel()
	address, stop := startBroker()
	t.Cleanup(stop)
	ctx := t.Context()
	with := func(key string, retry time.Duration) *client.Client {
		c := must.Get(client.New(address, client.Options{APIKey: key, RetryTime: retry}))(t)
		t.Cleanup(c.Close)
		return c
	}
	root := with(testKey, -1)
	made, err := root.CreateToken(ctx, client.TokenSpec{ID: "shop", Scopes: client.Scopes{Write: []string{"*"}, Admin: []string{"*"}}})
	must.NoError(t, err)
	want := []client.Quota{{Principal: "*", Requests: 1000}, {Principal: "shop", ProduceBytes: 1000}}
	for _, q := range want {
		must.NoError(t, root.SetQuota(ctx, q))
	}
	if got, err := root.Quotas(ctx); err != nil || !slices.Equal(got, want) {
		t.Errorf("quotas %+v %v, want %+v", got, err, want)
	}
	records := func(n int) []record.Record { return []record.Record{{Value: []byte(strings.Repeat("v", n))}} }
	must.Get(with(made.Secret, -1).Produce(ctx, "t", records(2000), client.ProduceOptions{}))(t)
	var over *client.Error
	_, err = with(made.Secret, -1).Produce(ctx, "t", records(1), client.ProduceOptions{})
	if !errors.As(err, &over) || !errors.Is(err, client.ErrQuotaExceeded) || !errors.Is(err, client.ErrRejected) || over.RetryAfter < time.Second || over.RetryAfter > 2*time.Second {
		t.Errorf("over the quota: %v", err)
	}
	check.NoErrorf(t, check.Err(with(made.Secret, time.Minute).Produce(ctx, "t", records(1), client.ProduceOptions{})), "with retries")
	check.NoError(t, root.RemoveQuota(ctx, "shop"))
	check.ErrorIsf(t, root.RemoveQuota(ctx, "shop"), client.ErrUnknownQuota, "a second removal")
	check.ErrorIsf(t, root.SetQuota(ctx, client.Quota{Principal: "shop"}), client.ErrBadRequest, "a quota without limits")
}

// TestListsOfSeveralPages: a list that is longer than a page of answers is complete, and an empty one is
// not nil.
func TestListsOfSeveralPages(t *testing.T) {
	address, stop := startBroker()
	t.Cleanup(stop)
	c := must.Get(client.New(address, client.Options{APIKey: testKey}))(t)
	t.Cleanup(c.Close)
	ctx := t.Context()
	if none := must.Get(c.Rules(ctx, client.RuleFilter{}))(t); none == nil || len(none) != 0 {
		t.Errorf("no rules: %#v", none)
	}
	var rules []client.Rule
	for i := range 2500 {
		rules = append(rules, client.Rule{Principal: "shop", Resource: "topic", Pattern: fmt.Sprintf("t%04d", i), Operation: "read"})
	}
	must.NoError(t, c.AddRules(ctx, rules))
	check.EqualSlicesf(t, must.Get(c.Rules(ctx, client.RuleFilter{Principal: "shop"}))(t), rules, "all rules")
	check.Equalf(t, len(must.Get(c.Rules(ctx, client.RuleFilter{Pattern: "t1999"}))(t)), 1, "rules of a pattern")
}
