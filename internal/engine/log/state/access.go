package state

import (
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/base/protobuf"
)

// ErrUnauthorized: the principal of an append or a proposal has no right to it in the state of the
// slot that would hold it.
var ErrUnauthorized = errors.New("not authorized")

// ErrAccessFull: the table of principals, rules and quotas is full. It is ErrOverBudget.
var ErrAccessFull = fmt.Errorf("%w: limit of %d principals, %d rules or %d quotas reached",
	ErrOverBudget, access.PrincipalsMax, access.RulesMax, access.QuotasMax)

// ErrAccessConflict: the principals and rules have changed since the change was planned.
var ErrAccessConflict = errors.New("principals and rules have changed meanwhile")

// changeFields lists the fields of an access change, and the functions after it those of its
// messages (FORMAT.md).
func changeFields(ch *access.Change, c *protobuf.Codec) {
	c.Strings(1, "principal to delete", &ch.Delete)
	protobuf.Messages(c, 2, "principal", &ch.Put, principalFields)
	protobuf.Messages(c, 3, "rule to delete", &ch.DeleteRules, ruleFields)
	protobuf.Messages(c, 4, "rule", &ch.PutRules, ruleFields)
	protobuf.Messages(c, 5, "use", &ch.Used, useFields)
	c.Strings(6, "quota to delete", &ch.DeleteQuotas)
	protobuf.Messages(c, 7, "quota", &ch.PutQuotas, quotaFields)
	c.String(8, "signing key", &ch.PutSigning)
}

func principalFields(p *access.Principal, c *protobuf.Codec) {
	c.String(1, "id", &p.ID)
	c.String(2, "issuer", &p.Issuer)
	protobuf.Int(c, 3, "created", &p.Created)
	protobuf.Int(c, 4, "expires", &p.Expires)
	protobuf.Messages(c, 5, "secret", &p.Secrets, secretFields)
	if c.Done() && (!access.ValidID(p.ID) || p.Created < 0 || p.Expires < 0) {
		c.Fail(fmt.Errorf("principal %q: %w", p.ID, errWire))
	}
}

func secretFields(s *access.Secret, c *protobuf.Codec) {
	protobuf.Int(c, 1, "number", &s.ID)
	c.Fixed(2, "hash", s.Hash[:])
	protobuf.Int(c, 3, "created", &s.Created)
	protobuf.Int(c, 4, "expires", &s.Expires)
	protobuf.Int(c, 5, "last use", &s.Used)
	protobuf.Messages(c, 6, "verifier", &s.Scram, scramFields)
	if c.Done() && (s.ID == 0 || s.Created < 0 || s.Expires < 0 || s.Used < 0) {
		c.Fail(fmt.Errorf("secret %d: %w", s.ID, errWire))
	}
}

func scramFields(v *access.Scram, c *protobuf.Codec) {
	c.KeepZeros(true)
	protobuf.Int(c, 1, "mechanism", &v.Mechanism)
	protobuf.Int(c, 2, "iterations", &v.Iterations)
	c.Bytes(3, "salt", &v.Salt)
	c.Bytes(4, "stored key", &v.StoredKey)
	c.Bytes(5, "server key", &v.ServerKey)
	if c.Done() && v.Mechanism != access.SCRAMSHA256 && v.Mechanism != access.SCRAMSHA512 {
		c.Fail(fmt.Errorf("mechanism %d: %w", v.Mechanism, errWire))
	}
}

func ruleFields(r *access.Rule, c *protobuf.Codec) {
	c.String(1, "principal", &r.Principal)
	protobuf.Int(c, 2, "resource type", &r.Resource)
	c.String(3, "name", &r.Name)
	c.Bool(4, "prefix", &r.Prefix)
	protobuf.Int(c, 5, "operation", &r.Operation)
	c.Bool(6, "denial", &r.Deny)
	c.String(7, "host", &r.Host)
	if c.Done() && (r.Principal == "" || r.Name == "" || r.Host == "" || !r.Operation.Exists(r.Resource)) {
		c.Fail(fmt.Errorf("rule %s: %w", r, errWire))
	}
}

func useFields(u *access.Use, c *protobuf.Codec) {
	c.KeepZeros(true)
	c.String(1, "principal", &u.Principal)
	protobuf.Int(c, 2, "secret", &u.Secret)
	protobuf.Int(c, 3, "time", &u.Time)
	if c.Done() && u.Time < 0 {
		c.Fail(fmt.Errorf("use of %q: %w", u.Principal, errWire))
	}
}

func quotaFields(q *access.Quota, c *protobuf.Codec) {
	c.String(1, "principal", &q.Principal)
	protobuf.Int(c, 2, "produced bytes", &q.ProduceBytes)
	protobuf.Int(c, 3, "fetched bytes", &q.FetchBytes)
	protobuf.Int(c, 4, "requests", &q.Requests)
	if c.Done() && q.Check() != nil {
		c.Fail(fmt.Errorf("quota of %q: %w", q.Principal, errWire))
	}
}

// tableMessage is the table of a snapshot: a change of an empty one.
type tableMessage struct {
	access.Change
	version uint64
}

func tableOf(t *access.Table) *tableMessage {
	m := tableMessage{access.Change{PutRules: t.Rules(), PutQuotas: t.Quotas(), PutSigning: t.Signing()}, t.Version}
	for _, p := range t.Principals() {
		m.Put = append(m.Put, *p)
	}
	return &m
}

func (t *tableMessage) fields(c *protobuf.Codec) {
	protobuf.Int(c, 1, "version", &t.version)
	protobuf.Messages(c, 2, "principal", &t.Put, principalFields)
	protobuf.Messages(c, 3, "rule", &t.PutRules, ruleFields)
	protobuf.Messages(c, 4, "quota", &t.PutQuotas, quotaFields)
	c.String(5, "signing key", &t.PutSigning)
}

// accessLevel is the format level that an access change needs.
func accessLevel(c *access.Change) uint32 {
	switch {
	case c.PutSigning != "":
		return LevelSigning
	case c.ChangesQuotas():
		return LevelSecrets
	}
	return LevelAccess
}

// proposeAccess checks a change of principals, rules and quotas.
func (s *State) proposeAccess(c *access.Change) error {
	if needs := accessLevel(c); s.Level < needs {
		return &LevelError{Needs: needs, Has: s.Level}
	}
	if c.Versioned() && c.Base != s.Access.Version {
		return ErrAccessConflict
	}
	if !s.Access.Fits(c) {
		return ErrAccessFull
	}
	return nil
}
