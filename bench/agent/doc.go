// Package agent distributes a run over several load machines. An Agent serves one coordinator at a
// time and performs its part of each run. A Team is the coordinator's side: it sets the system
// under test up and tears it down, distributes the work, starts all agents together, and merges
// their results.
//
// A connection is TLS 1.3 with a certificate that the agent generates at its start. The token
// authenticates both sides: each sends an HMAC-SHA256, keyed with the token, of the keying material
// of this TLS connection (RFC 9266). So the token is never sent, a proof is useless on another
// connection, and a man in the middle has no proof. TLS protects everything else. Any holder of the
// token can put load on everything that the agent can reach. A short token could be guessed from a
// proof, so short tokens are refused.
//
// The connection carries frames: a length of four bytes, big-endian, and JSON. Before
// authentication the agent reads at most helloMax bytes of a frame. Then:
//
//	coordinator                    agent
//	hello     version, proof  ->
//	                          <-   welcome  proof, build | refused  reason
//	run       the workload    ->            measures its floor, connects
//	                          <-   ready
//	start     delay           ->
//	                          <-   began    immediately: its round trip bounds how far apart agents begin
//	                          <-   totals   every second
//	over                      ->            everything has arrived, or failed: the agent stops waiting
//	                          <-   seen     messages of other agents that have arrived here
//	seen                      ->            messages of this agent that have arrived elsewhere
//	                          <-   result   with all histograms | failed  reason
//
// The next run follows. Both sides send a beat every second. A side that receives nothing for
// Silence assumes that the other has failed: the agent stops its load, the coordinator stops the
// run. Stop ends a run; so does the end of the connection.
package agent
