package api

import "time"

// TokenSpec is the body of POST /tokens: a token and what it may do.
type TokenSpec struct {
	ID string `json:"id,omitempty"` // a-z 0-9 . -; absent: the broker makes one
	// Expires is when the token ends; absent: with the token that creates it.
	Expires time.Time `json:"expires_at,omitzero"`
	// Preset is a common set of rights: viewer reads topics, groups, triggers and metrics, and changes
	// nothing; operator also writes, resets groups and manages topics and triggers.
	Preset string `json:"preset,omitempty"`
	Scopes
	Rules []Rule `json:"rules,omitempty"` // in addition to preset and scopes; their principal is the token
}

// Scopes are common sets of rules. Each is a list of patterns: a name; the beginning of names and
// *; or * for every name. Only its exact name matches a topic of Seb itself, such as firings.
type Scopes struct {
	Read     []string `json:"read,omitempty"`     // topics
	Write    []string `json:"write,omitempty"`    // topics
	Admin    []string `json:"admin,omitempty"`    // topics to create, change, trim and delete
	Groups   []string `json:"groups,omitempty"`   // consumer groups
	Triggers []string `json:"triggers,omitempty"` // IDs of triggers
	Metrics  bool     `json:"metrics,omitempty"`
	Cluster  bool     `json:"cluster,omitempty"` // tokens, rules, quotas, format level, log time
}

// Rule allows or denies a principal an operation. A denial overrides all permissions.
type Rule struct {
	Principal string `json:"principal"` // the ID of a token, the name of a user, or * for all
	Resource  string `json:"resource"`  // topic, group, trigger, cluster, metrics or transactional-id
	Pattern   string `json:"pattern"`   // as in Scopes; the cluster is kafka-cluster, the metrics metrics
	Operation string `json:"operation"` // all, read, write, create, delete, alter, describe, ...
	Deny      bool   `json:"deny,omitempty"`
	Host      string `json:"host,omitempty"` // an IP address; absent: every client address
}

// Rules is the body of POST /acls, and the answer to GET, POST and DELETE /acls.
type Rules struct {
	Rules []Rule `json:"rules"`
}

// Quota is the body and the answer of PUT /quotas/{id}: the limits of a principal per second on one
// broker. An absent limit is no limit; a quota has at least one.
type Quota struct {
	// Principal is the ID of a token, the name of a user, or * for all without a quota of their own.
	// In a request the path names it.
	Principal    string `json:"principal,omitempty"`
	ProduceBytes int64  `json:"produce_bytes,omitempty"` // of requests with a body
	FetchBytes   int64  `json:"fetch_bytes,omitempty"`   // of answers to reads
	Requests     int64  `json:"requests,omitempty"`
}

// Quotas is the answer to GET /quotas, sorted by principal.
type Quotas struct {
	Quotas []Quota `json:"quotas"`
}

// Token is a principal: a token, or a user with a password. It does not contain the secret.
type Token struct {
	ID      string        `json:"id"`
	Issuer  string        `json:"issuer"` // the token that created it; seb is the root key
	Created time.Time     `json:"created_at"`
	Expires time.Time     `json:"expires_at,omitzero"`
	Used    time.Time     `json:"last_used_at,omitzero"`
	Secrets []TokenSecret `json:"secrets"` // the newest first; two while one replaces the other
	Rules   []Rule        `json:"rules"`   // those that name the token
}

// TokenSecret is one valid secret of a Token.
type TokenSecret struct {
	Kind    string    `json:"kind"` // token or password
	Created time.Time `json:"created_at"`
	Expires time.Time `json:"expires_at,omitzero"`
	Used    time.Time `json:"last_used_at,omitzero"` // to the hour after a restart
}

// TokenCreated is the answer to POST /tokens and POST /tokens/{id}/rotate.
type TokenCreated struct {
	Token
	Secret string `json:"token"`          // the key for requests; the broker does not store it
	Hint   string `json:"hint,omitempty"` // advice, with the first token of a bucket
}

// Tokens is the answer to GET /tokens, sorted by ID.
type Tokens struct {
	Tokens []Token `json:"tokens"`
}

// AuditRecord is the value of a record in the audit topic. The record's timestamp is the time of the
// change.
type AuditRecord struct {
	Actor    AuditActor    `json:"actor"`
	From     string        `json:"from,omitempty"`     // address of the client
	Protocol string        `json:"protocol,omitempty"` // http, kafka or library
	Request  string        `json:"request,omitempty"`  // X-Request-Id; for Kafka client ID and correlation ID
	Action   string        `json:"action"`             // such as topic.create
	Resource AuditResource `json:"resource"`
	Outcome  string        `json:"outcome"` // done, denied or failed-login
	// Count is the number of denials or failed logins that the record stands for; absent: one.
	Count   int               `json:"count,omitempty"`
	Details map[string]string `json:"details,omitempty"` // without secrets and values of records
}

// AuditActor is the client of a change.
type AuditActor struct {
	// Principal is the ID of a token, or the name of a user; seb is the root key. Absent: Seb itself,
	// or a client that has not authenticated.
	Principal string `json:"principal,omitempty"`
	Secret    string `json:"secret,omitempty"` // number of the token's secret, hexadecimal
}

// AuditResource is what a record is about.
type AuditResource struct {
	Type string `json:"type"` // a type of rules, or principal, acl, quota, network
	Name string `json:"name"`
}
