package native

import (
	"bytes"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// bucket4jScripts are the scripts of Bucket4j. The client decides, and stores the state
// of its bucket unless somebody else has changed it since.
var bucket4jScripts = []Script{
	{
		Library: "Bucket4j create with expiry", Instead: "SET key state NX PX milliseconds",
		SHAs:         []string{"c0569386b0382069581dfaa1a8d241140bc0eeb4"},
		Fingerprints: []string{"d0e6cfd1043b069ff1acc5627daa6c68"},
		run:          func(c *Call) bool { return c.create(c.after(c.integer(1), time.Millisecond)) },
	},
	{
		Library: "Bucket4j create", Instead: "SET key state NX",
		SHAs:         []string{"1fed031c105d7c0315b3fc2e4a75e697247264f5"},
		Fingerprints: []string{"3696dc947caf0c9105db00ca27648dec"},
		run:          func(c *Call) bool { return c.create(engine.NoExpiry) },
	},
	{
		Library: "Bucket4j compare and swap with expiry", Instead: bucketInstead,
		SHAs:         []string{"535b2fd00a12a23393fe15cf99599ecc51cd3007"},
		Fingerprints: []string{"4306b0b5fc193f0d7d819c5d51c2c3ff"},
		run:          func(c *Call) bool { return c.compareAndSwap(c.after(c.integer(2), time.Millisecond), true) },
	},
	{
		Library: "Bucket4j compare and swap", Instead: bucketInstead,
		SHAs:         []string{"9450de540565d89de15092a716555821601f128b"},
		Fingerprints: []string{"fd335e650d1b318712ce79f4ef2cf5fb"},
		run:          func(c *Call) bool { return c.compareAndSwap(engine.NoExpiry, true) },
	},
}

// create stores the first argument until a time, if the key does not exist.
func (c *Call) create(at int64) bool {
	stored, ok := c.put(at)
	if ok {
		c.truth(stored)
	}
	return ok
}

// put stores the first argument as the value of the first key until a time, unless the key
// exists. It reports whether it has stored the value.
func (c *Call) put(at int64) (stored, ok bool) {
	value := c.arg(0)
	if c.odd || len(c.Keys) == 0 {
		return false, false
	}
	stored, err := c.Sess.Set(c.Now, c.Keys[0], value, &engine.SetOptions{Deadline: at, OnlyNew: true})
	if err != nil {
		return false, c.failed(err)
	}
	return stored, true
}

// compareAndSwap replaces the first argument by the second, until a time. If gone is set,
// it replies 0 for a key that does not exist.
func (c *Call) compareAndSwap(at int64, gone bool) bool {
	old, next := c.arg(0), c.arg(1)
	v := c.open(0, algo.Counter)
	if v == nil {
		return false
	}
	defer v.Close()
	switch {
	case v.Exists() && bytes.Equal(v.Bytes(), old):
		if err := v.Set(next); err != nil {
			return c.failed(err)
		}
		v.SetDeadline(at)
		c.truth(true)
		return true
	case v.Exists() || gone:
		c.truth(false)
		return true
	}
	return false
}

// truth replies 1 or 0.
func (c *Call) truth(yes bool) { c.W.Int(truth(yes)) }
