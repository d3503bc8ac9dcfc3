package native

import (
	"bytes"
	"time"

	"github.com/headgate-io/headgate/engine"
)

// bucket4jScripts are those of Bucket4j: the client decides, and stores the
// state of its bucket if it is still the one that it has read.
var bucket4jScripts = []Script{
	{
		Library: "Bucket4j create with expiry", Instead: "SET key state NX PX milliseconds",
		SHAs:         []string{"c0569386b0382069581dfaa1a8d241140bc0eeb4"},
		Fingerprints: []string{"d0e6cfd1043b069ff1acc5627daa6c68"},
		run:          func(c *Call) bool { return c.has(1, 2) && c.create(c.Args[1]) },
	},
	{
		Library: "Bucket4j create", Instead: "SET key state NX",
		SHAs:         []string{"1fed031c105d7c0315b3fc2e4a75e697247264f5"},
		Fingerprints: []string{"3696dc947caf0c9105db00ca27648dec"},
		run:          func(c *Call) bool { return c.has(1, 1) && c.create(nil) },
	},
	{
		Library: "Bucket4j compare and swap with expiry", Instead: bucketInstead,
		SHAs:         []string{"535b2fd00a12a23393fe15cf99599ecc51cd3007"},
		Fingerprints: []string{"4306b0b5fc193f0d7d819c5d51c2c3ff"},
		run:          func(c *Call) bool { return c.has(1, 3) && c.compareAndSwap(c.Args[2], time.Millisecond, true) },
	},
	{
		Library: "Bucket4j compare and swap", Instead: bucketInstead,
		SHAs:         []string{"9450de540565d89de15092a716555821601f128b"},
		Fingerprints: []string{"fd335e650d1b318712ce79f4ef2cf5fb"},
		run:          func(c *Call) bool { return c.has(1, 2) && c.compareAndSwap(nil, 0, true) },
	},
}

// lifetime is the deadline of a time to live; nil is none.
func (c *Call) lifetime(arg []byte, unit time.Duration) (at int64, ok bool) {
	if arg == nil {
		return engine.NoExpiry, true
	}
	n, ok := integer(arg)
	if !ok {
		return 0, false
	}
	return c.after(n, unit)
}

// create stores the first argument where there is no key.
func (c *Call) create(expiry []byte) bool {
	at, ok := c.lifetime(expiry, time.Millisecond)
	if !ok {
		return false
	}
	o := engine.SetOptions{OnlyNew: true}
	if expiry != nil {
		o.Deadline = at
	}
	set, err := c.Sess.Set(c.Now, c.Keys[0], c.Args[0], &o)
	if err != nil {
		return c.failed(err)
	}
	c.truth(set)
	return true
}

// compareAndSwap stores the second argument in place of the first. gone tells
// that it replies 0 for a key that is gone.
func (c *Call) compareAndSwap(expiry []byte, unit time.Duration, gone bool) bool {
	at, ok := c.lifetime(expiry, unit)
	if !ok {
		return false
	}
	v := c.open(c.Keys[0], engine.Counter)
	if v == nil {
		return false
	}
	defer v.Close()
	if !v.Exists() && !gone {
		return false
	}
	if !v.Exists() || !bytes.Equal(v.Bytes(), c.Args[0]) {
		c.truth(false)
		return true
	}
	if err := v.Set(c.Args[1]); err != nil {
		return c.failed(err)
	}
	v.SetDeadline(at)
	c.truth(true)
	return true
}

// truth replies 1 or 0.
func (c *Call) truth(yes bool) {
	if yes {
		c.W.Int(1)
	} else {
		c.W.Int(0)
	}
}
