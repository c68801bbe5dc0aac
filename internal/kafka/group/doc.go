// Package group answers the requests of the Kafka protocol that are about consumer groups. Each API key has a file of its own,
// with what is supported on top. Who is in a group is decided elsewhere (packages groups and coordinator); here requests are
// decoded, begun in the order in which a connection sends them, and answers made of what comes back.
package group
