package server

import "github.com/headgate-io/headgate/server/command"

// lookahead is how many commands of a pipeline are parsed before the first of them runs. A
// processor core can have about sixteen cache misses in progress.
const lookahead = 16

// ahead is the scratch memory of runAhead. It notes where each parsed command ends.
type ahead struct {
	ends [lookahead]struct{ arg, byte int }
	keys [][]byte
	same [][]byte // the keys of one partition
	// scripts holds the keys of scripts.
	scripts [][]byte
	// derives reports that some commands find their keys themselves (see
	// command.Spec.Ahead). others reports that there are such commands or scripts.
	others, derives bool
}

// runAhead parses several commands of a pipeline, prefetches the states of all their keys,
// and then runs the commands. So the cache misses of a large table overlap. It returns how
// many bytes of buf it has run. It returns 0 if this would gain nothing, or if the next
// input is not an ordinary command.
//
// It runs only after authentication, because authentication changes the limits of parsing.
func (c *conn) runAhead(buf []byte) int {
	l := c.lane
	if !c.lane.sess.Cold() || c.mode&modeNoAuth != 0 {
		return 0
	}
	args, a := l.args[:0], &l.ahead
	a.keys, a.others = a.keys[:0], false
	count, at := 0, 0
	for count < lookahead {
		from := len(args)
		var used int
		if args, used = c.parser.Ahead(buf[at:], c.limits, args); used == 0 {
			break
		}
		at += used
		a.ends[count].arg, a.ends[count].byte = len(args), at
		count++
		a.keys = l.firstKeys(a.keys, args[from:])
	}
	if cap(args) > cap(l.args) {
		l.args = args
	}
	if count < 2 {
		a.scripts, a.derives = a.scripts[:0], false
		return 0
	}
	if len(l.portions) > 1 {
		l.warmEach(c.db, c.home)
	} else {
		l.use(c.db)
		l.sess.Warm(a.keys)
		l.use(0)
	}
	if a.others {
		c.warmOthers(args, count)
	}
	from, start := 0, 0
	for i := range count {
		if i > 0 && !c.catchUp() {
			at = start
			break
		}
		end := a.ends[i]
		c.runOne(args[from:end.arg], end.byte-start)
		if from, start = end.arg, end.byte; c.stall != 0 || c.ending == closes {
			at = end.byte
			break
		}
	}
	l.call.Round++ // from here on, the scratch is for other commands
	if ended := l.call.Ended; ended != nil {
		l.call.Ended = nil
		ended()
	}
	return at
}

// warmEach prefetches the states of keys of several partitions. It leaves the lane at
// home, the portion of commands that find their keys themselves.
func (l *lane) warmEach(db uint8, home uint16) {
	a := &l.ahead
	for len(a.keys) > 0 {
		at, rest := l.srv.portionOf(keySlot(a.keys[0])), 0
		a.same = a.same[:0]
		for _, key := range a.keys {
			if l.srv.portionOf(keySlot(key)) == at {
				a.same = append(a.same, key)
			} else {
				a.keys[rest] = key
				rest++
			}
		}
		a.keys = a.keys[:rest]
		l.enter(at)
		l.use(db)
		l.sess.Warm(a.same)
		l.use(0)
	}
	l.enter(home)
}

// warmOthers prefetches the states of the keys of scripts, and prepares the commands that
// find their keys themselves.
func (c *conn) warmOthers(args [][]byte, count int) {
	l, a := c.lane, &c.lane.ahead
	if len(a.scripts) > 0 {
		l.use(c.db)
		l.sess.WarmWhole(a.scripts)
		l.use(0)
	}
	if a.derives {
		l.derive(args, count)
	}
	a.scripts, a.derives = a.scripts[:0], false
}

// derive prepares the commands that find their keys themselves.
func (l *lane) derive(args [][]byte, count int) {
	from := 0
	for _, end := range l.ahead.ends[:count] {
		one := args[from:end.arg]
		from = end.arg
		if len(one) == 0 {
			continue
		}
		if cmd := l.find(one); cmd != nil && cmd.Ahead != nil && cmd.Accepts(len(one)) {
			cmd.Ahead(&l.call, one)
		}
	}
}

// firstKeys appends the first key of a command. It also notes the first two keys of a
// script, and commands that find their keys themselves.
func (l *lane) firstKeys(keys, args [][]byte) [][]byte {
	if len(args) < 2 {
		return keys
	}
	switch cmd := l.find(args); {
	case cmd == nil:
	case cmd.Keys.First == 1:
		keys = append(keys, args[1])
	case cmd.Flags&command.Script != 0 && len(args) > 3:
		a := &l.ahead
		a.scripts, a.others = append(a.scripts, args[3]), true
		if n := args[2]; len(args) > 4 && !(len(n) == 1 && n[0] == '1') { // prefetching an argument that is not a key does no harm
			a.scripts = append(a.scripts, args[4])
		}
	case cmd.Ahead != nil && l.mode&modeElsewhere == 0:
		l.ahead.derives, l.ahead.others = true, true
	}
	return keys
}
