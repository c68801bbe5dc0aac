// Package kafka serves the Kafka wire protocol on a broker: any Kafka client, unchanged. What is stored is what clients of
// Kafka send and read, RecordBatch v2, so produce and fetch move bytes as they are.
//
// Each API key has a file of its own, with what is supported and what is not on top, and a line in the table (table.go).
// Package conn has the connections, package conn looks at requests before they are decoded, and kmsg decodes and encodes
// them, but for the answer to Fetch, whose data is sent from where it lies.
//
// The group answers the requests of the Kafka protocol that are about consumer groups. Each API key has a file of its own,
// with what is supported on top. Who is in a group is decided elsewhere (packages groups and coordinator); here requests are
// decoded, begun in the order in which a connection sends them, and answers made of what comes back.
package kafka
