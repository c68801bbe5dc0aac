package kafka

// GroupServer serves requests of consumer groups; tests call it without a connection.
type GroupServer = groupServer
