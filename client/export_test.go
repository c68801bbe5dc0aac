package client

import (
	"context"
	"errors"
	"time"
)

// Base is the address of the broker that gets the next request.
func Base(c *Client) string { return c.brokers.pick() }

// SetSilence replaces the times of 5 s and 1 s without a byte.
func SetSilence(c *Client, silence, suspect time.Duration) {
	c.brokers.silence, c.brokers.suspect = silence, suspect
}

// Learn lets the client learn brokers, and returns those that it knows. A nil list is a refusal.
func Learn(c *Client, members []ClusterMember) []string {
	if members == nil {
		c.brokers.learn(nil, errors.New("refused"))
	} else {
		c.brokers.learn(&Cluster{Members: members}, nil)
	}
	return c.brokers.list
}

// Known are the addresses that the client knows.
func Known(c *Client) []string {
	c.brokers.mu.Lock()
	defer c.brokers.mu.Unlock()
	return c.brokers.list
}

// See notes a position, and After is the one that reads name.
func See(c *Client, pos string) { c.brokers.see(pos) }
func After(c *Client) string    { return c.brokers.after() }

// Pauses are those between n attempts that a broker refused, which asked for a pause.
func Pauses(ctx context.Context, n int, asked time.Duration) (all []time.Duration) {
	b := backoff{time: time.Hour}
	for range n {
		began := time.Now()
		b.wait(ctx, asked)
		all = append(all, time.Since(began))
	}
	return all
}
