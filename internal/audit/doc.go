// Package audit makes audit records: who changed what, and which requests were denied. A record of a
// change is stored in the slot of the change (package log). Denials and failed logins are sampled.
package audit
