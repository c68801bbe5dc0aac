package differential

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/protocols/auth"
)

// principal returns a user of this seed; with rules, usually the one that sends requests.
func (w *generator) principal() string {
	if w.limited != "" && !w.chance(4) {
		return "User:" + w.limited
	}
	return "User:" + w.prefix + pick(w, "ann", "bob")
}

// rule returns a valid rule.
func (w *generator) rule() kmsg.CreateACLsRequestCreation {
	c := kmsg.NewCreateACLsRequestCreation()
	c.Principal, c.Host, c.ResourcePatternType, c.PermissionType = w.principal(), "*", kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLPermissionTypeAllow
	if w.chance(5) {
		c.PermissionType = kmsg.ACLPermissionTypeDeny
	}
	if w.chance(10) {
		c.Host = pick(w, "127.0.0.1", "192.0.2.7")
	}
	kind := pick(w, access.Topic, access.Topic, access.Group, access.Cluster, access.TransactionalID)
	c.ResourceType = kmsg.ACLResourceType(kind)
	c.Operation = kmsg.ACLOperation(pick(w, append(access.OperationsOf(kind), access.All)...))
	prefix := ""
	switch kind {
	case access.Topic:
		c.ResourceName, prefix = w.topicName(), w.prefix+pick(w, "topic", "topic1", "t")
	case access.Group:
		c.ResourceName, prefix = pick(w, w.groups...), w.prefix+"group"
	case access.Cluster:
		c.ResourceName = access.ClusterName
		return c
	default:
		c.ResourceName, prefix = w.prefix+"tx", w.prefix
	}
	switch w.IntN(4) {
	case 0:
		c.ResourceName = access.Any
	case 1:
		c.ResourceName, c.ResourcePatternType = prefix, kmsg.ACLResourcePatternTypePrefixed
	}
	return c
}

// filterOf returns a filter that matches rules of this seed alone.
func (w *generator) filterOf() kmsg.DescribeACLsRequest {
	f := kmsg.NewDescribeACLsRequest()
	of, principal := w.rule(), w.principal()
	f.ResourceType, f.ResourcePatternType, f.Operation, f.PermissionType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny, kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	f.Principal = &principal
	if w.chance(2) {
		f.ResourceType = of.ResourceType
	}
	if w.chance(2) {
		f.ResourceName = &of.ResourceName
		f.ResourcePatternType = pick(w, kmsg.ACLResourcePatternTypeAny, kmsg.ACLResourcePatternTypeMatch, kmsg.ACLResourcePatternTypeMatch,
			kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLResourcePatternTypePrefixed)
	}
	if w.chance(3) {
		f.Operation = of.Operation
	}
	if w.chance(4) {
		f.PermissionType = of.PermissionType
	}
	if w.chance(6) {
		f.Host = &of.Host
	}
	if w.chance(15) {
		pick(w, func() { f.ResourceType = 0 }, func() { f.ResourceType = 99 }, func() { f.ResourcePatternType = 0 }, func() { f.Operation = 0 },
			func() { f.PermissionType = 0 }, func() { f.Principal = text("ann") }, func() { f.ResourceName = text("") }, func() { f.Operation = 99 })()
	}
	return f
}

func (w *generator) describeRules() *step {
	f := w.filterOf()
	if w.chance(4) {
		f.Principal = nil // the comparison leaves out other seeds
	}
	return &step{what: "describe rules", key: kmsg.DescribeACLs, version: anyVersion, reads: true, build: func(*side) kmsg.Request {
		r := f
		return &r
	}}
}

// oddRules requests a rule that cannot exist.
func (w *generator) oddRules() *step {
	c := w.rule()
	c.Principal = "User:odd" // in no filter, because Kafka stores some of these rules
	pick(w, func() { c.Principal = "" }, func() { c.Principal = "carl" }, func() { c.Principal = ":" }, func() { c.ResourceName = "" },
		func() { c.ResourceType = kmsg.ACLResourceTypeAny }, func() { c.ResourceType = 0 }, func() { c.ResourceType = 99 },
		func() { c.Operation = kmsg.ACLOperationAny }, func() { c.Operation = 0 }, func() { c.PermissionType = kmsg.ACLPermissionTypeAny },
		func() { c.PermissionType = 0 }, func() { c.ResourcePatternType = kmsg.ACLResourcePatternTypeMatch },
		func() { c.ResourcePatternType = kmsg.ACLResourcePatternTypeAny }, func() { c.Host = "" },
		func() {
			c.ResourceType, c.ResourceName, c.Operation = kmsg.ACLResourceTypeCluster, "other", kmsg.ACLOperationAlter
		},
		func() {
			c.ResourceType, c.ResourceName, c.Operation = kmsg.ACLResourceTypeGroup, w.prefix+"group0", kmsg.ACLOperationWrite
		})()
	return &step{what: fmt.Sprintf("odd rule %+v", c), key: kmsg.CreateACLs, version: anyVersion, build: func(*side) kmsg.Request {
		r := kmsg.NewPtrCreateACLsRequest()
		r.Creations = []kmsg.CreateACLsRequestCreation{c}
		return r
	}}
}

// changeRules creates or deletes rules. If there is a limited user it also creates a marker.
func (w *generator) changeRules() *step {
	st := &step{version: anyVersion}
	if w.limited != "" {
		w.markers++
		st.marker = fmt.Sprintf("%smarker%d", w.prefix, w.markers)
	}
	if w.chance(3) {
		f := w.filterOf()
		d := kmsg.DeleteACLsRequestFilter{
			ResourceType: f.ResourceType, ResourceName: f.ResourceName, ResourcePatternType: f.ResourcePatternType, Principal: f.Principal,
			Host: f.Host, Operation: f.Operation, PermissionType: f.PermissionType,
		}
		st.key, st.what = kmsg.DeleteACLs, fmt.Sprintf("delete rules of %s", *f.Principal)
		st.build = func(*side) kmsg.Request {
			r := kmsg.NewPtrDeleteACLsRequest()
			r.Filters = []kmsg.DeleteACLsRequestFilter{d}
			return r
		}
		return st
	}
	var list []kmsg.CreateACLsRequestCreation
	for range 1 + w.IntN(4) {
		list = append(list, w.rule())
	}
	st.key, st.what = kmsg.CreateACLs, fmt.Sprintf("rules %+v", list)
	st.build = func(*side) kmsg.Request {
		r := kmsg.NewPtrCreateACLsRequest()
		r.Creations = list
		return r
	}
	return st
}

// passwordOf is the password of every user.
const passwordOf = "a password"

// credential returns a password for a user.
func credential(user string, mechanism access.Mechanism, iterations uint32) kmsg.AlterUserSCRAMCredentialsRequestUpsertion {
	u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	u.Name, u.Mechanism, u.Iterations, u.Salt = user, int8(mechanism), int32(iterations), []byte("a salt of sixteen")
	u.SaltedPassword = auth.Salted(mechanism, passwordOf, u.Salt, iterations)
	return u
}

// passwords sets and deletes passwords of users that send no requests.
func (w *generator) passwords() *step {
	used := map[string]int8{} // Kafka changes one mechanism of a user, see below
	name := func(mechanism int8) string {
		if w.chance(12) {
			return ""
		}
		name := w.prefix + pick(w, "ann", "bob", "carl")
		if other, ok := used[name]; ok && other != mechanism {
			return ""
		}
		used[name] = mechanism
		return name
	}
	r := kmsg.NewAlterUserSCRAMCredentialsRequest()
	n := w.IntN(3)
	if w.limited != "" { // a limited client of Seb cannot give others more rights than it has
		name, n = func(int8) string { return w.prefix + "missing" }, 0
	}
	for range n {
		m := pick(w, access.SCRAMSHA256, access.SCRAMSHA512)
		u := credential(name(int8(m)), m, 4096)
		if w.chance(3) {
			u.Iterations = int32(pick(w, -1, 0, 1, 4095, 8192, 16384))
		}
		if w.chance(12) {
			u.Mechanism = pick(w, int8(0), 3)
		}
		r.Upsertions = append(r.Upsertions, u)
	}
	for range w.IntN(3) {
		m := pick(w, int8(1), 2, 2, 0)
		r.Deletions = append(r.Deletions, kmsg.AlterUserSCRAMCredentialsRequestDeletion{Name: name(m), Mechanism: m})
	}
	if w.limited == "" && w.chance(8) { // of a user in no list of the comparison, because Kafka refuses it
		r.Upsertions = []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{credential("both", access.SCRAMSHA256, 4096), credential("both", access.SCRAMSHA512, 4096)}
		r.Deletions = nil
	}
	var what strings.Builder
	for _, u := range r.Upsertions {
		fmt.Fprintf(&what, " %q mechanism %d, %d iterations", u.Name, u.Mechanism, u.Iterations)
	}
	return &step{what: fmt.Sprintf("passwords%s, without %+v", what.String(), r.Deletions), key: kmsg.AlterUserSCRAMCredentials, version: anyVersion, build: func(*side) kmsg.Request {
		one := r
		return &one
	}}
}

func (w *generator) describePasswords() *step {
	var users []kmsg.DescribeUserSCRAMCredentialsRequestUser
	least := 0
	if w.limited != "" {
		least = 1 // Kafka does not answer a refused request for all users
	}
	for range least + w.IntN(4) {
		users = append(users, kmsg.DescribeUserSCRAMCredentialsRequestUser{Name: w.prefix + pick(w, "ann", "bob", "carl", "missing")})
	}
	return &step{what: "describe passwords", key: kmsg.DescribeUserSCRAMCredentials, version: anyVersion, reads: true, build: func(*side) kmsg.Request {
		r := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
		r.Users = users
		return r
	}}
}
