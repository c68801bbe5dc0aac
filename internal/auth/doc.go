// Package auth authenticates clients and manages principals, tokens and rules. Front ends ask an
// Authority who a client is; the answer is an Identity, which decides by the newest committed rules
// (package access) what the client may do. Failures delays and logs failed logins by their network.
//
// The root key stands outside: it is not in the log, may do everything, and is the way back in
// when rules lock every principal out.
package auth
