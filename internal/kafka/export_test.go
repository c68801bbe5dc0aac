package kafka

// GroupServer answers the requests of consumer groups; its tests call it without a connection.
type GroupServer = groupServer
