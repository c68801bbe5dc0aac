package state

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/internal/access"
)

// ErrUnauthorized: the principal of an append or a proposal has no right to it in the state of the
// slot that would hold it.
var ErrUnauthorized = errors.New("not authorized")

// ErrAccessFull: the table of principals, rules and quotas is full. It is ErrOverBudget.
var ErrAccessFull = fmt.Errorf("%w: limit of %d principals, %d rules or %d quotas reached",
	ErrOverBudget, access.PrincipalsMax, access.RulesMax, access.QuotasMax)

// ErrAccessConflict: the principals and rules have changed since the change was planned.
var ErrAccessConflict = errors.New("principals and rules have changed meanwhile")

// Fields of an access change: 1 principal deleted, 2 principal, 3 rule deleted, 4 rule, 5 use, 6
// quota deleted, 7 quota. Each is repeated.
var (
	changeFields    = schemaOf(7)
	principalFields = schemaOf(5, 3, 4)       // 1 id, 2 issuer, 3 created, 4 expires, 5 secret (repeated)
	secretFields    = schemaOf(6, 1, 3, 4, 5) // 1 id, 2 hash, 3 created, 4 expires, 5 used, 6 verifier (repeated)
	scramFields     = schemaOf(5, 1, 2)       // 1 mechanism, 2 iterations, 3 salt, 4 stored key, 5 server key
	ruleFields      = schemaOf(7, 2, 4, 5, 6) // 1 principal, 2 resource, 3 name, 4 prefix, 5 operation, 6 deny, 7 host
	useFields       = schemaOf(3, 2, 3)       // 1 principal, 2 secret, 3 time
	quotaFields     = schemaOf(4, 2, 3, 4)    // 1 principal, 2 produce, 3 fetch, 4 requests
	tableFields     = schemaOf(4, 1)          // of a snapshot: 1 version; repeated: 2 principal, 3 rule, 4 quota
)

const (
	changeDelete      = 1
	changePut         = 2
	changeDeleteRule  = 3
	changePutRule     = 4
	changeUsed        = 5
	changeDeleteQuota = 6
	changePutQuota    = 7

	tableVersion   = 1
	tablePrincipal = 2
	tableRule      = 3
	tableQuota     = 4
)

// appendNonzero appends a varint field that is not 0.
func appendNonzero(b []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return appendVarint(b, num, v)
}

func encodeChange(c *access.Change) (b []byte) {
	for _, id := range c.Delete {
		b = appendBytes(b, changeDelete, []byte(id))
	}
	for i := range c.Put {
		b = appendBytes(b, changePut, encodePrincipal(&c.Put[i]))
	}
	for i := range c.DeleteRules {
		b = appendBytes(b, changeDeleteRule, encodeRule(&c.DeleteRules[i]))
	}
	for i := range c.PutRules {
		b = appendBytes(b, changePutRule, encodeRule(&c.PutRules[i]))
	}
	for _, u := range c.Used {
		m := appendBytes(nil, 1, []byte(u.Principal))
		m = appendVarint(m, 2, u.Secret)
		b = appendBytes(b, changeUsed, appendVarint(m, 3, uint64(u.Time)))
	}
	for _, id := range c.DeleteQuotas {
		b = appendBytes(b, changeDeleteQuota, []byte(id))
	}
	for i := range c.PutQuotas {
		b = appendBytes(b, changePutQuota, encodeQuota(&c.PutQuotas[i]))
	}
	return b
}

func decodeChange(c *access.Change, b []byte) error {
	return fields(b, changeFields, func(num protowire.Number, _ uint64, m []byte) error {
		switch num {
		case changeDelete:
			c.Delete = append(c.Delete, string(m))
		case changePut:
			p, err := decodePrincipal(m)
			c.Put = append(c.Put, p)
			return err
		case changeDeleteRule:
			r, err := decodeRule(m)
			c.DeleteRules = append(c.DeleteRules, r)
			return err
		case changePutRule:
			r, err := decodeRule(m)
			c.PutRules = append(c.PutRules, r)
			return err
		case changeUsed:
			u, err := decodeUse(m)
			c.Used = append(c.Used, u)
			return err
		case changeDeleteQuota:
			c.DeleteQuotas = append(c.DeleteQuotas, string(m))
		case changePutQuota:
			q, err := decodeQuota(m)
			c.PutQuotas = append(c.PutQuotas, q)
			return err
		}
		return nil
	})
}

func encodePrincipal(p *access.Principal) []byte {
	b := appendBytes(nil, 1, []byte(p.ID))
	if p.Issuer != "" {
		b = appendBytes(b, 2, []byte(p.Issuer))
	}
	b = appendNonzero(b, 3, uint64(p.Created))
	b = appendNonzero(b, 4, uint64(p.Expires))
	for i := range p.Secrets {
		s := &p.Secrets[i]
		m := appendVarint(nil, 1, s.ID)
		if s.IsToken() {
			m = appendBytes(m, 2, s.Hash[:])
		}
		m = appendNonzero(m, 3, uint64(s.Created))
		m = appendNonzero(m, 4, uint64(s.Expires))
		m = appendNonzero(m, 5, uint64(s.Used))
		for j := range s.Scram {
			m = appendBytes(m, 6, encodeScram(&s.Scram[j]))
		}
		b = appendBytes(b, 5, m)
	}
	return b
}

func decodePrincipal(b []byte) (p access.Principal, err error) {
	err = fields(b, principalFields, func(num protowire.Number, v uint64, m []byte) error {
		switch num {
		case 1:
			p.ID = string(m)
		case 2:
			p.Issuer = string(m)
		case 3:
			p.Created = int64(v)
		case 4:
			p.Expires = int64(v)
		case 5:
			s, err := decodeSecret(m)
			p.Secrets = append(p.Secrets, s)
			return err
		}
		return nil
	})
	if err == nil && (!access.ValidID(p.ID) || p.Created < 0 || p.Expires < 0) {
		err = fmt.Errorf("principal %q: %w", p.ID, errWire)
	}
	return p, err
}

func decodeSecret(b []byte) (s access.Secret, err error) {
	err = fields(b, secretFields, func(num protowire.Number, v uint64, m []byte) error {
		switch num {
		case 1:
			s.ID = v
		case 2:
			if copy(s.Hash[:], m); len(m) != len(s.Hash) {
				return fmt.Errorf("hash of %d bytes: %w", len(m), errWire)
			}
		case 3:
			s.Created = int64(v)
		case 4:
			s.Expires = int64(v)
		case 5:
			s.Used = int64(v)
		case 6:
			c, err := decodeScram(m)
			s.Scram = append(s.Scram, c)
			return err
		}
		return nil
	})
	if err == nil && (s.ID == 0 || s.Created < 0 || s.Expires < 0 || s.Used < 0) {
		err = fmt.Errorf("secret %d: %w", s.ID, errWire)
	}
	return s, err
}

func encodeScram(c *access.Scram) []byte {
	b := appendVarint(nil, 1, uint64(c.Mechanism))
	b = appendVarint(b, 2, uint64(c.Iterations))
	b = appendBytes(b, 3, c.Salt)
	b = appendBytes(b, 4, c.StoredKey)
	return appendBytes(b, 5, c.ServerKey)
}

func decodeScram(b []byte) (c access.Scram, err error) {
	err = fields(b, scramFields, func(num protowire.Number, v uint64, m []byte) (err error) {
		switch num {
		case 1:
			c.Mechanism = access.Mechanism(min(v, math.MaxUint8))
		case 2:
			c.Iterations, err = uint32Of(v)
		case 3:
			c.Salt = slices.Clone(m)
		case 4:
			c.StoredKey = slices.Clone(m)
		case 5:
			c.ServerKey = slices.Clone(m)
		}
		return err
	})
	if err == nil && c.Mechanism != access.SCRAMSHA256 && c.Mechanism != access.SCRAMSHA512 {
		err = fmt.Errorf("mechanism %d: %w", c.Mechanism, errWire)
	}
	return c, err
}

func encodeRule(r *access.Rule) []byte {
	b := appendBytes(nil, 1, []byte(r.Principal))
	b = appendVarint(b, 2, uint64(r.Resource))
	b = appendBytes(b, 3, []byte(r.Name))
	b = appendNonzero(b, 4, uint64(bit(r.Prefix)))
	b = appendVarint(b, 5, uint64(r.Operation))
	b = appendNonzero(b, 6, uint64(bit(r.Deny)))
	return appendBytes(b, 7, []byte(r.Host))
}

func decodeRule(b []byte) (r access.Rule, err error) {
	err = fields(b, ruleFields, func(num protowire.Number, v uint64, m []byte) error {
		switch num {
		case 1:
			r.Principal = string(m)
		case 2:
			r.Resource = access.ResourceType(min(v, math.MaxUint8))
		case 3:
			r.Name = string(m)
		case 4:
			r.Prefix = v != 0
		case 5:
			r.Operation = access.Operation(min(v, math.MaxUint8))
		case 6:
			r.Deny = v != 0
		case 7:
			r.Host = string(m)
		}
		return nil
	})
	if err == nil && (r.Principal == "" || r.Name == "" || r.Host == "" || !r.Operation.Exists(r.Resource)) {
		err = fmt.Errorf("rule %s: %w", r, errWire)
	}
	return r, err
}

func decodeUse(b []byte) (u access.Use, err error) {
	err = fields(b, useFields, func(num protowire.Number, v uint64, m []byte) error {
		switch num {
		case 1:
			u.Principal = string(m)
		case 2:
			u.Secret = v
		case 3:
			u.Time = int64(v)
		}
		return nil
	})
	if err == nil && u.Time < 0 {
		err = fmt.Errorf("use of %q: %w", u.Principal, errWire)
	}
	return u, err
}

func encodeQuota(q *access.Quota) []byte {
	b := appendBytes(nil, 1, []byte(q.Principal))
	b = appendNonzero(b, 2, q.ProduceBytes)
	b = appendNonzero(b, 3, q.FetchBytes)
	return appendNonzero(b, 4, q.Requests)
}

func decodeQuota(b []byte) (q access.Quota, err error) {
	err = fields(b, quotaFields, func(num protowire.Number, v uint64, m []byte) error {
		switch num {
		case 1:
			q.Principal = string(m)
		case 2:
			q.ProduceBytes = v
		case 3:
			q.FetchBytes = v
		case 4:
			q.Requests = v
		}
		return nil
	})
	if err == nil && q.Check() != nil {
		err = fmt.Errorf("quota of %q: %w", q.Principal, errWire)
	}
	return q, err
}

// encodeTable encodes the principals, rules and quotas of a snapshot.
func encodeTable(t *access.Table) []byte {
	b := appendVarint(nil, tableVersion, t.Version)
	for _, p := range t.Principals() {
		b = appendBytes(b, tablePrincipal, encodePrincipal(p))
	}
	for _, r := range t.Rules() {
		b = appendBytes(b, tableRule, encodeRule(&r))
	}
	for _, q := range t.Quotas() {
		b = appendBytes(b, tableQuota, encodeQuota(&q))
	}
	return b
}

func (s *State) decodeTable(b []byte) error {
	var c access.Change
	var version uint64
	err := fields(b, tableFields, func(num protowire.Number, v uint64, m []byte) error {
		switch num {
		case tableVersion:
			version = v
		case tablePrincipal:
			p, err := decodePrincipal(m)
			c.Put = append(c.Put, p)
			return err
		case tableRule:
			r, err := decodeRule(m)
			c.PutRules = append(c.PutRules, r)
			return err
		case tableQuota:
			q, err := decodeQuota(m)
			c.PutQuotas = append(c.PutQuotas, q)
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.Access.Apply(&c)
	s.Access.Version = version
	return nil
}

// accessLevel is the format level that an access change needs.
func accessLevel(c *access.Change) uint32 {
	if c.ChangesQuotas() {
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
