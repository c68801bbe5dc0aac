// Package forward sends a request that only the leader can answer from another broker to the leader,
// and the answer back to the client.
//
//	client            standby                      leader
//	  │ POST /records    │                            │
//	  ├─────────────────▶│ reserve memory             │
//	  │                  ├───────────────────────────▶│ Seb-Forwarded
//	  │                  │◀───────────────────────────┤
//	  │◀─────────────────┤ Seb-Leader                 │
//
// A request is forwarded once: a broker that gets it from another one and does not lead refuses it.
// The forwarder repeats it only if it certainly has no effect: no connection was made, or the broker
// has refused it with a code that means so. After the first byte of the body, or a request without
// one, has left, a broken connection leaves the outcome unknown.
package forward
