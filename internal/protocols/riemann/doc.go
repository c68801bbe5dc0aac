// Package riemann serves the protocol of Riemann on a broker, for unmodified Riemann clients. Their
// events become records of a topic, in the form of POST /event, so that triggers and consumers see
// them:
//
//	Msg {                                   record
//	  events: {service: "disk"        ──▶     key   web1
//	           host:    "web1"                value {"event":"disk","entity_id":"web1",
//	           state:   "critical"                   "data":{"state":"critical","metric":0.97},
//	           metric_f: 0.97                        "occurred_at":"2026-11-26T01:00:00Z"}
//	           time:    1795654800}}
//
// A message passes these steps. Its memory is reserved before it is used, and no event becomes an
// object:
//
//	reserve the length   framed
//	read                 framed
//	walk                 walk: checks the bytes, and bounds the size of the records
//	reserve the records  session.store
//	transcode            transcode: from the bytes of the message to a RecordBatch
//	submit               session.store, in the order of the messages of a connection
//	wait, answer         session.finish
//
// Package framed serves the connections. An Index answers queries. Dashboards serves subscriptions to
// it over HTTP.
package riemann
