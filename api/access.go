package api

import "time"

// TokenSpec is the body of POST /tokens: a token and what it may do.
type TokenSpec struct {
	// Letters a-z, digits, dots and hyphens; absent - the broker makes one.
	//openapi:maxLength 64
	//openapi:minLength 1
	//openapi:pattern '^[a-z0-9.-]+$'
	ID string `json:"id,omitempty"`
	// End of the token; absent: that of the token which creates it.
	Expires time.Time `json:"expires_at,omitzero"`
	// viewer reads topics, groups, triggers and metrics, and changes nothing; operator also writes,
	// resets groups and manages topics and triggers. Other rights of the body are added.
	//openapi:enum [viewer, operator]
	Preset string `json:"preset,omitempty"`
	Scopes
	// Rights in addition to `preset` and the lists; their principal is the token.
	Rules []Rule `json:"rules,omitempty"`
}

// Scopes are common sets of rules. Each is a list of patterns: a name; the beginning of names and
// *; or * for every name. Only its exact name matches a topic of Seb itself, such as firings.
type Scopes struct {
	// Topics.
	//openapi:schema PatternList
	Read []string `json:"read,omitempty"`
	// Topics.
	//openapi:schema PatternList
	Write []string `json:"write,omitempty"`
	// Topics to create, change, trim and delete.
	//openapi:schema PatternList
	Admin []string `json:"admin,omitempty"`
	// Consumer groups.
	//openapi:schema PatternList
	Groups []string `json:"groups,omitempty"`
	// IDs of triggers.
	//openapi:schema PatternList
	Triggers []string `json:"triggers,omitempty"`
	Metrics  bool     `json:"metrics,omitempty"`
	Cluster  bool     `json:"cluster,omitempty"` // Tokens, rules, quotas, format level, log time.
}

// Rule allows or denies a principal an operation. A denial overrides all permissions.
//
//openapi:required [resource, pattern, operation]
type Rule struct {
	// The ID of a token, the name of a user, or * for all.
	//openapi:schema PrincipalText
	Principal string `json:"principal"`
	//openapi:schema ResourceKind
	Resource string `json:"resource"`
	// The cluster has the name kafka-cluster, the metrics the name metrics.
	//openapi:schema PatternText
	Pattern string `json:"pattern"`
	//openapi:schema OperationName
	Operation string `json:"operation"`
	Deny      bool   `json:"deny,omitempty"`
	// An IP address of clients; absent: every address.
	//openapi:maxLength 64
	Host string `json:"host,omitempty"`
}

// Rules is the body of POST /acls, and the answer to POST and DELETE /acls.
type Rules struct {
	Rules []Rule `json:"rules"`
}

// RuleList is the answer to GET /acls.
type RuleList struct {
	Rules []Rule `json:"rules"`
	// The parameter `after` of the next page, if there is one and `limit` was given.
	Next *string `json:"next,omitempty"`
}

// Quota is the body and the answer of PUT /quotas/{id}: the limits of a principal per second on one
// broker. An absent limit is no limit; a quota has at least one.
type Quota struct {
	// The ID of a token, the name of a user, or * for all without a quota of their own. In a request
	// the path names it.
	//openapi:schema PrincipalText
	Principal string `json:"principal,omitempty"`
	// Bytes of requests with a body.
	//openapi:maximum 1099511627776
	//openapi:minimum 0
	ProduceBytes int64 `json:"produce_bytes,omitempty"`
	// Bytes of answers to reads.
	//openapi:maximum 1099511627776
	//openapi:minimum 0
	FetchBytes int64 `json:"fetch_bytes,omitempty"`
	// Requests.
	//openapi:maximum 1099511627776
	//openapi:minimum 0
	Requests int64 `json:"requests,omitempty"`
}

// Quotas is the answer to GET /quotas, sorted by principal.
type Quotas struct {
	Quotas []Quota `json:"quotas"`
	// The parameter `after` of the next page, if there is one and `limit` was given.
	Next *string `json:"next,omitempty"`
}

// Token is a principal: a token, or a user with a password. It does not contain the secret.
type Token struct {
	ID string `json:"id"`
	// The token that created it; seb is the root key.
	Issuer  string    `json:"issuer"`
	Created time.Time `json:"created_at"`
	Expires time.Time `json:"expires_at,omitzero"`
	Used    time.Time `json:"last_used_at,omitzero"`
	// The newest first; two while one replaces the other.
	Secrets []TokenSecret `json:"secrets"`
	// Those that name the token.
	Rules []Rule `json:"rules"`
}

// TokenSecret is one valid secret of a Token.
type TokenSecret struct {
	//openapi:enum [token, password]
	Kind    string    `json:"kind"`
	Created time.Time `json:"created_at"`
	Expires time.Time `json:"expires_at,omitzero"`
	// To the hour after a restart.
	Used time.Time `json:"last_used_at,omitzero"`
}

// TokenCreated is the answer to POST /tokens and POST /tokens/{id}/rotate.
type TokenCreated struct {
	Token
	// The key for requests. The broker does not store it.
	Secret string `json:"token"`
	Hint   string `json:"hint,omitempty"` // Advice, with the first token of a bucket.
}

// SigningPair is the answer to POST /tokens/{id}/aws: what a client of the SQS API signs its requests with.
type SigningPair struct {
	AccessKeyID string `json:"access_key_id"`
	// It is derived from the token and a key of the cluster. The broker does not store it.
	SecretAccessKey string `json:"secret_access_key"`
}

// Tokens is the answer to GET /tokens, sorted by ID.
type Tokens struct {
	Tokens []Token `json:"tokens"`
	// The parameter `after` of the next page, if there is one and `limit` was given.
	Next *string `json:"next,omitempty"`
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
