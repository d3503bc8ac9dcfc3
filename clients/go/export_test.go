package headgate

// NoJitter makes the probes of a client come at exact times.
func NoJitter(c *Client) { c.random = func() float64 { return 0.5 } }
