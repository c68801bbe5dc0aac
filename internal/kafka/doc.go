// Package kafka serves the Kafka wire protocol on a broker, for unmodified Kafka clients. The log
// stores the batches of Kafka clients, RecordBatch v2, so produce and fetch pass their bytes
// through.
//
// Each API key has a file, whose header states the supported versions and differences, and a row in
// the table of table.go. Package framed serves the connections, and package wire checks
// requests before they are decoded. kmsg decodes and encodes them, except the answer to Fetch, whose data is sent from memory or files without a copy.
//
// Packages group and coordinator decide the membership of groups. The handlers here decode a
// request, begin it in the order of its connection, and encode the answer.
package kafka
