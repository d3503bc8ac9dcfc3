package sequence

// transaction begins or ends a transaction of the connection.
func (g *Generator) transaction() {
	switch n := g.rng.IntN(10); {
	case n == 9 && g.has("RESET") && g.rng.IntN(2) == 0:
		g.queueing[g.conn] = false
		g.send("RESET")
	case g.queueing[g.conn] && n < 8:
		g.queueing[g.conn] = false
		g.send("EXEC")
	case g.queueing[g.conn] && n == 8 && g.has("DISCARD"):
		g.queueing[g.conn] = false
		g.send("DISCARD")
	case g.queueing[g.conn] || n == 0: // an error where it is out of place
		if !g.queueing[g.conn] {
			g.send(g.pick("EXEC", "DISCARD"))
			return
		}
		g.send("MULTI")
	default:
		g.queueing[g.conn] = true
		g.send("MULTI")
	}
}

// guarded appends a transaction that watches keys, as clients of a limiter do that read,
// reckon and write. A command or two that may change the keys come in between, from this
// connection and from others.
func (g *Generator) guarded() {
	own := g.conn
	keys := []string{g.anyKey(), g.anyKey(), g.anyKey()}
	g.send(append([]string{"WATCH"}, keys[:1+g.rng.IntN(3)]...)...)
	for range g.rng.IntN(3) {
		g.conn = g.rng.IntN(Conns)
		switch {
		case g.queueing[g.conn] || len(g.groups) == 0:
		case g.script && g.rng.IntN(5) == 0:
			g.eval()
		case g.has("FLUSHALL") && g.rng.IntN(20) == 0:
			g.send("FLUSHALL")
		default:
			g.command()
		}
	}
	g.conn = own
	if g.rng.IntN(8) == 0 {
		g.send(g.pick("UNWATCH", "DISCARD", "MULTI"))
	}
	g.queueing[own] = true
	g.send("MULTI")
	for range g.rng.IntN(3) {
		g.command()
	}
	g.queueing[own] = false
	g.send("EXEC")
}

// iterate appends a scan from its beginning to its end, or a command whose
// reply is chosen by the server.
func (g *Generator) iterate() {
	match := func(s *Step) {
		if g.rng.IntN(2) == 0 {
			s.Args = append(s.Args, "MATCH", g.pattern())
		}
		if g.rng.IntN(2) == 0 {
			s.Args = append(s.Args, "COUNT", g.pick("1", "3", "10", "100"))
		}
		s.Scan, s.Joined = true, false
	}
	switch n := g.rng.IntN(6); {
	case n == 0 && g.has("SPOP"):
		// Which member is taken is the server's choice, so none is left.
		key := g.keyOf("u")
		g.send("SPOP", key, g.pick("1", "2", "100"))
		g.send("DEL", key)
	case n == 1 && g.has("HSCAN"):
		s := g.send("HSCAN", g.keyOf("h"), "0")
		s.Cursor = 2
		match(s)
	case n == 2 && g.has("SSCAN"):
		s := g.send("SSCAN", g.keyOf("u"), "0")
		s.Cursor = 2
		match(s)
	case n == 3 && g.has("ZSCAN"):
		s := g.send("ZSCAN", g.keyOf("z"), "0")
		s.Cursor = 2
		match(s)
	case g.has("SCAN"):
		s := g.send("SCAN", "0")
		s.Cursor = 1
		match(s)
		if g.rng.IntN(3) == 0 {
			s.Args = append(s.Args, "TYPE", g.pick("string", "hash", "set", "zset", "list", "nosuch"))
		}
	}
}
