// Package link holds everything that the brokers of one bucket exchange: registrations, which are
// objects of the bucket, and links, which are connections between two runs. It decides nothing:
// package cluster has the rules, and the log alone decides who leads.
package link
