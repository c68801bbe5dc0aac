package client

// Base is the broker's address.
func Base(c *Client) string { return c.base }
