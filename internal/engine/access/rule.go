// Package access decides what clients may do. A principal is a client with its own secrets, rules
// allow or deny it operations on resources, and a quota limits its bytes and requests. A Table holds
// the principals, rules and quotas of a log; it is part of the replayed state.
//
// The package is pure: it has no clock, randomness, locks or I/O. Package auth checks secrets and
// sessions with it. Rules follow Kafka's access control lists: names of operations, implied
// operations, and denials that win over permissions.
package access

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Operation is what a rule allows or denies. The values are those of Kafka's protocol and occur in
// the log (FORMAT.md of package state). Zero is invalid.
type Operation uint8

// The operations.
const (
	All             Operation = 2
	Read            Operation = 3
	Write           Operation = 4
	Create          Operation = 5
	Delete          Operation = 6
	Alter           Operation = 7
	Describe        Operation = 8
	ClusterAction   Operation = 9
	DescribeConfigs Operation = 10
	AlterConfigs    Operation = 11
	IdempotentWrite Operation = 12
)

// ResourceType is the kind of thing that a rule is about. Values below 100 are those of Kafka's
// protocol. Zero is invalid.
type ResourceType uint8

// The types of resources.
const (
	Topic           ResourceType = 2
	Group           ResourceType = 3
	Cluster         ResourceType = 4 // its only name is ClusterName
	TransactionalID ResourceType = 5
	Trigger         ResourceType = 100
	Metrics         ResourceType = 101 // its only name is MetricsName
)

const (
	// ClusterName is the name of the only resource of type Cluster, as in Kafka.
	ClusterName = "kafka-cluster"
	// MetricsName is the name of the only resource of type Metrics.
	MetricsName = "metrics"
	// Any as a literal name matches every resource of a type, except internal topics. As a
	// principal it matches every principal, as a host every client address.
	Any = "*"
)

var operationNames = map[Operation]string{
	All: "all", Read: "read", Write: "write", Create: "create", Delete: "delete", Alter: "alter", Describe: "describe",
	ClusterAction: "cluster-action", DescribeConfigs: "describe-configs", AlterConfigs: "alter-configs", IdempotentWrite: "idempotent-write",
}

var resourceNames = map[ResourceType]string{
	Topic: "topic", Group: "group", Cluster: "cluster", TransactionalID: "transactional-id", Trigger: "trigger", Metrics: "metrics",
}

// operationsOf lists the operations that exist on a type of resource; All exists on each.
var operationsOf = map[ResourceType][]Operation{
	Topic:           {Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs},
	Group:           {Read, Describe, Delete, DescribeConfigs, AlterConfigs},
	Cluster:         {Create, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite, Alter, Describe},
	TransactionalID: {Describe, Write},
	Trigger:         {Read, Write, Delete, Describe},
	Metrics:         {Describe},
}

func (o Operation) String() string    { return nameOf(operationNames, o) }
func (r ResourceType) String() string { return nameOf(resourceNames, r) }

func nameOf[T ~uint8](names map[T]string, v T) string {
	if name, ok := names[v]; ok {
		return name
	}
	return fmt.Sprintf("unknown (%d)", uint8(v))
}

// ParseOperation returns the operation of a name as String gives it.
func ParseOperation(name string) (Operation, error) {
	return parseName(operationNames, "operation", name)
}

// ParseResourceType returns the type of a name as String gives it.
func ParseResourceType(name string) (ResourceType, error) {
	return parseName(resourceNames, "resource type", name)
}

func parseName[T ~uint8](names map[T]string, what, name string) (T, error) {
	var known []T
	for v, n := range names {
		if n == name {
			return v, nil
		}
		known = append(known, v)
	}
	slices.Sort(known)
	list := make([]string, len(known))
	for i, v := range known {
		list[i] = names[v]
	}
	return 0, fmt.Errorf("%s %.40q: want one of %v", what, name, list)
}

// Exists reports whether the operation exists on resources of a type.
func (o Operation) Exists(on ResourceType) bool {
	ops, ok := operationsOf[on]
	return ok && (o == All || slices.Contains(ops, o))
}

// Rule allows or denies a principal an operation on the resources that match a pattern. Rules with
// equal fields are the same rule. The field order is that of a list.
type Rule struct {
	Principal string // an ID, or Any
	Resource  ResourceType
	Name      string // a name, Any, or with Prefix the beginning of names
	Prefix    bool
	Operation Operation
	Deny      bool
	Host      string // an IP address, or Any
}

// Compare orders rules by their fields.
func (r Rule) Compare(o Rule) int {
	return cmp.Or(cmp.Compare(r.Principal, o.Principal), cmp.Compare(r.Resource, o.Resource), cmp.Compare(r.Name, o.Name), order(r.Prefix, o.Prefix),
		cmp.Compare(r.Operation, o.Operation), order(r.Deny, o.Deny), cmp.Compare(r.Host, o.Host))
}

func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// String describes the rule in a sentence's part: allow ann read on topic "orders."*.
func (r Rule) String() string {
	verb, name := "allow", fmt.Sprintf("%q", r.Name)
	if r.Deny {
		verb = "deny"
	}
	switch {
	case r.Prefix:
		name += "*"
	case r.Name == Any:
		name = Any
	}
	text := fmt.Sprintf("%s %s %s on %s %s", verb, r.Principal, r.Operation, r.Resource, name)
	if r.Host != Any {
		text += " from " + r.Host
	}
	return text
}

// OperationsOf returns the operations that exist on a type of resource, except All.
func OperationsOf(t ResourceType) []Operation { return operationsOf[t] }

// ErrPattern: the text of a pattern is invalid.
var ErrPattern = errors.New(`want a name, a beginning of names and *, or only *; \* and \\ in a name are an asterisk and a backslash`)

// ParsePattern reads the text of a pattern: a name; * for every name; or the beginning of names and
// a *. In it \* is an asterisk and \\ a backslash.
func ParsePattern(text string) (name string, prefix bool, err error) {
	if text == Any {
		return Any, false, nil
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '*' && i == len(text)-1:
			prefix = true
			continue
		case c == '*':
			return "", false, ErrPattern
		case c == '\\':
			if i++; i == len(text) || text[i] != '*' && text[i] != '\\' {
				return "", false, ErrPattern
			}
			c = text[i]
		}
		b.WriteByte(c)
	}
	return b.String(), prefix, nil
}

// Pattern returns the text of the rule's pattern, as ParsePattern reads it. The literal name * is
// Any.
func (r *Rule) Pattern() string {
	if r.Name == Any && !r.Prefix {
		return Any
	}
	text := strings.NewReplacer(`\`, `\\`, `*`, `\*`).Replace(r.Name)
	if r.Prefix {
		text += "*"
	}
	return text
}
