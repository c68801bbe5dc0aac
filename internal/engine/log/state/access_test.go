package state_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// everyChange is an access change with every field.
func everyChange() *access.Change {
	rule := access.Rule{Principal: "ann", Resource: access.Topic, Name: "t", Prefix: true, Operation: access.Read, Deny: true, Host: "192.0.2.1"}
	scram := access.Scram{Mechanism: access.SCRAMSHA512, Iterations: 4096, Salt: []byte{1}, StoredKey: []byte{2}, ServerKey: []byte{3}}
	return &access.Change{
		Delete: []string{"old"}, DeleteRules: []access.Rule{rule}, DeleteQuotas: []string{"old", access.Any},
		Put: []access.Principal{{ID: "ann", Issuer: "bob", Created: 1, Expires: 9, Secrets: []access.Secret{{
			ID: 7, Hash: [32]byte{1}, Created: 2, Expires: 8, Used: 3, Scram: []access.Scram{scram},
		}}}},
		PutRules:  []access.Rule{rule},
		PutQuotas: []access.Quota{{Principal: "ann", ProduceBytes: 1, FetchBytes: 1 << 20, Requests: access.RateMax}, {Principal: access.Any, Requests: 5}},
		Used:      []access.Use{{Principal: "ann", Secret: 7, Time: 4}},
	}
}

func TestAccessChangeIsEncodedWithEveryField(t *testing.T) {
	want := []state.Record{{Kind: state.AccessChange, Access: everyChange()}}
	got, err := state.DecodeRecords(state.EncodeRecords(nil, want))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v: %+v, want %+v", err, got[0].Access, want[0].Access)
	}
}

func TestSnapshotRestoresQuotas(t *testing.T) {
	l := newLog(t)
	l.must([]state.Record{state.RaiseTo(state.LevelMax), {Kind: state.AccessChange, Access: everyChange()}})
	l.must([]state.Record{{Kind: state.AccessChange, Access: &access.Change{
		DeleteQuotas: []string{"ann"}, PutQuotas: []access.Quota{{Principal: "bob", FetchBytes: 3}},
	}}})
	back := must.Get(state.DecodeSnapshot(state.EncodeSnapshot(l.s)))(t)
	want := []access.Quota{{Principal: access.Any, Requests: 5}, {Principal: "bob", FetchBytes: 3}}
	if got := back.Access.Quotas(); !reflect.DeepEqual(got, want) || back.Access.Version != l.s.Access.Version {
		t.Errorf("version %d, quotas %+v, want %d, %+v", back.Access.Version, got, l.s.Access.Version, want)
	}
	if !bytes.Equal(state.EncodeMessage(back), state.EncodeMessage(l.s)) {
		t.Error("the restored state is encoded to other bytes")
	}
}

func TestQuotasNeedTheirLevel(t *testing.T) {
	for name, c := range map[string]*access.Change{
		"put":    {PutQuotas: []access.Quota{{Principal: "ann", Requests: 1}}},
		"delete": {DeleteQuotas: []string{"ann"}},
	} {
		l, r := newLog(t), state.Record{Kind: state.AccessChange, Access: c}
		l.must([]state.Record{state.RaiseTo(state.LevelAccess)})
		var level *state.LevelError
		if err := l.s.Catalog().Propose(&r); !errors.As(err, &level) || level.Needs != state.LevelSecrets || level.Has != state.LevelAccess {
			t.Errorf("%s at level 3 is proposed: %v", name, err)
		}
		var chain *state.ChainError
		if err := l.data([]state.Record{r}); !errors.As(err, &chain) {
			t.Errorf("%s at level 3 is applied: %v", name, err)
		}
		l.must([]state.Record{state.RaiseTo(state.LevelSecrets), r})
	}
}

func TestQuotasAreBounded(t *testing.T) {
	l, fill := newLog(t), &access.Change{}
	for i := range access.QuotasMax {
		fill.PutQuotas = append(fill.PutQuotas, access.Quota{Principal: fmt.Sprint("p", i), Requests: 1})
	}
	l.must([]state.Record{state.RaiseTo(state.LevelMax), {Kind: state.AccessChange, Access: fill}})
	propose := func(q access.Quota) error {
		c := &access.Change{Base: l.s.Access.Version, PutQuotas: []access.Quota{q}}
		return l.s.Catalog().Propose(&state.Record{Kind: state.AccessChange, Access: c})
	}
	check.NoErrorf(t, propose(access.Quota{Principal: "p0", Requests: 2}), "a change of a quota")
	if err := propose(access.Quota{Principal: "more", Requests: 2}); !errors.Is(err, state.ErrAccessFull) || !errors.Is(err, state.ErrOverBudget) {
		t.Errorf("a further quota: %v", err)
	}
}
