package api

import "time"

// HeaderSession carries the page's half of a session (Session.Session). The other half is a cookie.
const HeaderSession = "Seb-Session"

// Session is the answer to POST /console/login and GET /console/session: who a web page acts for.
type Session struct {
	Principal string `json:"principal"` // an ID; "seb" for the root key
	// Session is the half of the session that the page keeps. Only the login returns it.
	Session string    `json:"session,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
	// May lists the operations that the client may perform on some resource of a type, by type.
	May         map[string][]string `json:"may"`
	EventsTopic string              `json:"events_topic"`
	AuditTopic  string              `json:"audit_topic,omitempty"` // if the client may read it
	ReadOnly    bool                `json:"read_only,omitempty"`
}
