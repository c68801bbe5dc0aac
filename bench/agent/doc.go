// Package agent spreads a run over several load machines. An Agent serves one coordinator at a time and does its part of each
// run; a Team is the coordinator's side: it sets the system under test up and tears it down, deals the work out, has all agents
// begin together, and merges what they measured.
//
// A connection is TLS 1.3 with a certificate that the agent makes up when it starts. Who is at the other end is proven by the
// token, both ways: each side sends an HMAC-SHA256, keyed with the token, of the keying material of this TLS connection
// (RFC 9266). So the token never crosses the wire, a proof is worth nothing on another connection, somebody in between has no
// proof to give, and what is sent is neither read nor changed on the way. Whoever has the token may put load on whatever the
// agent can reach; a short token could be guessed from a proof, so short ones are refused.
//
// Inside that are frames: a length of four bytes, big-endian, and JSON. The agent has refused or welcomed its coordinator
// before it reads more than helloMax bytes of a frame. Then:
//
//	coordinator                    agent
//	hello     version, proof  ->
//	                          <-   welcome  proof, which build | refused  why
//	run       the workload    ->            measures its floor, connects
//	                          <-   ready
//	start     in how long     ->
//	                          <-   began    at once: its round trip bounds how far apart agents begin
//	                          <-   totals   every second
//	over                      ->            everything has arrived, or failed: it waits for no more
//	                          <-   seen     which messages of other agents have arrived here
//	seen                      ->            which messages of this agent have arrived elsewhere
//	                          <-   result   with all its histograms | failed  why
//
// The next run follows. Both sides send a beat every second; whoever hears nothing for Silence takes the other for dead: the
// agent stops its load, the coordinator stops the run. Stop ends a run; so does the end of the connection.
package agent
