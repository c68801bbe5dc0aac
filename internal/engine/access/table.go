package access

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
)

// Table holds the principals, rules and quotas of a log up to a position. The zero value is empty. A table
// is changed by one goroutine; Share gives copies to others.
type Table struct {
	// Version counts the changes. Equal versions of one log are equal tables.
	Version    uint64
	principals map[string]*Principal
	rules      map[Rule]struct{}
	of         map[string]map[Rule]struct{} // rules by principal
	grants     map[string]*Grants           // compiled rules; nil in a shared table
	quotas     map[string]Quota             // by principal
	signing    string
	shared     bool // the maps are shared: copy before a change
	text       int  // bytes of IDs, names and verifiers
}

// Change is one change of a table: everything in it happens, or nothing. Deletions come first.
type Change struct {
	// Base is the version of the table for which the change was made; it is not stored. If the
	// table has changed since, a proposal of the change is refused.
	Base         uint64
	Delete       []string // IDs
	Put          []Principal
	DeleteRules  []Rule
	PutRules     []Rule
	DeleteQuotas []string // principals
	PutQuotas    []Quota
	// PutSigning replaces the key of Signing; "" does not.
	PutSigning string
	Used       []Use
}

// Use is the last use of a secret. It does not change the table's version.
type Use struct {
	Principal string
	Secret    uint64
	Time      int64 // µs
}

// IsEmpty reports whether the change changes nothing.
func (c *Change) IsEmpty() bool {
	return !c.Versioned() && len(c.Used) == 0
}

// Versioned reports whether the change makes a new version of the table: it changes more than uses.
func (c *Change) Versioned() bool {
	return len(c.Delete)+len(c.Put)+len(c.DeleteRules)+len(c.PutRules)+len(c.PutSigning) > 0 || c.ChangesQuotas()
}

// ChangesQuotas reports whether the change has quotas, which need a higher format level.
func (c *Change) ChangesQuotas() bool { return len(c.DeleteQuotas)+len(c.PutQuotas) > 0 }

// Principal returns a principal, or nil. The caller must not change it.
func (t *Table) Principal(id string) *Principal { return t.principals[id] }

// Principals returns all principals by ID.
func (t *Table) Principals() []*Principal {
	return slices.SortedFunc(maps.Values(t.principals), func(a, b *Principal) int { return cmp.Compare(a.ID, b.ID) })
}

// Rules returns all rules, sorted.
func (t *Table) Rules() []Rule { return sorting.Sorted(maps.Keys(t.rules), Rule.Compare) }

// RulesOf returns the rules that name a principal, sorted. Those for Any are not among them.
func (t *Table) RulesOf(id string) []Rule {
	return sorting.Sorted(maps.Keys(t.of[id]), Rule.Compare)
}

// Has reports whether the table contains a rule.
func (t *Table) Has(r Rule) bool {
	_, ok := t.rules[r]
	return ok
}

// Len returns the number of principals and rules.
func (t *Table) Len() (principals, rules int) { return len(t.principals), len(t.rules) }

// Quota returns the quota that names a principal, or Any, and whether there is one.
func (t *Table) Quota(principal string) (q Quota, ok bool) {
	q, ok = t.quotas[principal]
	return q, ok
}

// QuotaFor returns the quota that applies to a principal: its own, else that of Any, else one
// without limits.
func (t *Table) QuotaFor(principal string) Quota {
	if q, ok := t.quotas[principal]; ok {
		return q
	}
	return t.quotas[Any]
}

// Quotas returns all quotas by principal.
func (t *Table) Quotas() []Quota {
	return sorting.Sorted(maps.Values(t.quotas), func(a, b Quota) int { return cmp.Compare(a.Principal, b.Principal) })
}

// Signing returns the encrypted key from which the secrets are derived that sign requests of the SQS API;
// "": none.
func (t *Table) Signing() string { return t.signing }

// Compile arranges the rules of a principal, including those for Any. It may be called concurrently
// on a shared table.
func (t *Table) Compile(id string) *Grants { return compile(t.of[id], t.of[Any]) }

// Check is the authority of a request that waits to be stored: its client was allowed the request
// by the table of Version. The nil Check is the authority of the root key and of Seb itself.
type Check struct {
	Principal string
	Secret    uint64 // 0: the client has a certificate, of which the log knows nothing
	Version   uint64
	Host      string
	Request   Request
}

// Permits reports whether the table still allows a checked request. It must not be called on a
// shared table.
func (t *Table) Permits(c *Check) bool {
	if c == nil || c.Version == t.Version {
		return true
	}
	if p := t.principals[c.Principal]; c.Secret != 0 && (p == nil || p.Secret(c.Secret) == nil) {
		return false
	}
	g := t.grants[c.Principal]
	if g == nil {
		g = t.Compile(c.Principal)
		if t.grants == nil {
			t.grants = map[string]*Grants{}
		}
		t.grants[c.Principal] = g
	}
	return g.Allow(c.Request, c.Host)
}

// Apply makes a change. Apply on equal tables gives equal tables.
func (t *Table) Apply(c *Change) {
	t.own()
	if c.Versioned() {
		t.Version++
		t.grants = nil
	}
	for _, id := range c.Delete {
		t.remove(id)
	}
	for i := range c.Put {
		p := c.Put[i]
		t.remove(p.ID)
		t.principals[p.ID] = &p
		t.text += p.size()
	}
	for _, r := range c.DeleteRules {
		if t.Has(r) {
			delete(t.rules, r)
			delete(t.of[r.Principal], r)
			if len(t.of[r.Principal]) == 0 {
				delete(t.of, r.Principal)
			}
			t.text -= len(r.Principal) + len(r.Name)
		}
	}
	for _, r := range c.PutRules {
		if !t.Has(r) {
			t.rules[r] = struct{}{}
			if t.of[r.Principal] == nil {
				t.of[r.Principal] = map[Rule]struct{}{}
			}
			t.of[r.Principal][r] = struct{}{}
			t.text += len(r.Principal) + len(r.Name)
		}
	}
	for _, id := range c.DeleteQuotas {
		t.removeQuota(id)
	}
	for _, q := range c.PutQuotas {
		t.removeQuota(q.Principal)
		t.quotas[q.Principal] = q
		t.text += len(q.Principal)
	}
	if c.PutSigning != "" {
		t.text += len(c.PutSigning) - len(t.signing)
		t.signing = c.PutSigning
	}
	for _, u := range c.Used {
		t.use(u)
	}
}

func (t *Table) remove(id string) {
	if p := t.principals[id]; p != nil {
		t.text -= p.size()
		delete(t.principals, id)
	}
}

func (t *Table) removeQuota(id string) {
	if _, ok := t.quotas[id]; ok {
		t.text -= len(id)
		delete(t.quotas, id)
	}
}

func (t *Table) use(u Use) {
	p := t.principals[u.Principal]
	if p == nil || p.Secret(u.Secret) == nil {
		return
	}
	p = p.Clone()
	s := p.Secret(u.Secret)
	s.Used = max(s.Used, u.Time)
	t.principals[p.ID] = p
}

// own makes the maps the table's own.
func (t *Table) own() {
	if t.principals == nil {
		t.principals, t.rules, t.of = map[string]*Principal{}, map[Rule]struct{}{}, map[string]map[Rule]struct{}{}
		t.quotas = map[string]Quota{}
	}
	if !t.shared {
		return
	}
	t.shared = false
	t.principals, t.rules, t.quotas = maps.Clone(t.principals), maps.Clone(t.rules), maps.Clone(t.quotas)
	of := make(map[string]map[Rule]struct{}, len(t.of))
	for id, rules := range t.of { //tidy:unordered copies a map
		of[id] = maps.Clone(rules)
	}
	t.of = of
}

// Share returns a copy that other goroutines may read. It shares the maps, which t copies before
// its next change.
func (t *Table) Share() Table {
	t.shared = true
	c := *t
	c.grants = nil
	return c
}

// Fits reports whether the table stays within its limits after a change.
func (t *Table) Fits(c *Change) bool {
	principals, rules, quotas := len(t.principals), len(t.rules), len(t.quotas)
	for i := range c.Put {
		if t.principals[c.Put[i].ID] == nil {
			principals++
		}
	}
	for _, r := range c.PutRules {
		if !t.Has(r) {
			rules++
		}
	}
	for _, q := range c.PutQuotas {
		if _, known := t.quotas[q.Principal]; !known {
			quotas++
		}
	}
	return principals <= PrincipalsMax && rules <= RulesMax && quotas <= QuotasMax
}

// Estimates of memory, bytes; TestMemory of package state compares them with the heap.
const (
	principalMemory = 500
	ruleMemory      = 700
	quotaMemory     = 400
)

// Memory estimates the memory of the table, bytes.
func (t *Table) Memory() int64 {
	return int64(len(t.principals))*principalMemory + int64(len(t.rules))*ruleMemory + int64(len(t.quotas))*quotaMemory + int64(t.text)
}

// Growth estimates by how much a change makes the table larger, bytes.
func (t *Table) Growth(c *Change) (n int64) {
	for i := range c.Put {
		old := t.principals[c.Put[i].ID]
		if n += int64(c.Put[i].size()); old != nil {
			n -= int64(old.size())
		} else {
			n += principalMemory
		}
	}
	for _, r := range c.PutRules {
		if !t.Has(r) {
			n += ruleMemory + int64(len(r.Principal)+len(r.Name))
		}
	}
	for _, q := range c.PutQuotas {
		if _, known := t.quotas[q.Principal]; !known {
			n += quotaMemory + int64(len(q.Principal))
		}
	}
	return max(0, n)
}

func (p *Principal) size() int {
	n := len(p.ID) + len(p.Issuer)
	for i := range p.Secrets {
		n += 128
		for _, v := range p.Secrets[i].Scram {
			n += 64 + len(v.Salt) + len(v.StoredKey) + len(v.ServerKey)
		}
	}
	return n
}
