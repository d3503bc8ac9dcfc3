package native

import (
	"bytes"
	"strconv"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/packed"
)

// laravelScripts are those of Laravel: its cache and locks, Redis::throttle and
// Redis::funnel.
var laravelScripts = []Script{
	{
		Library: "laravel cache add", Instead: "SET key value EX seconds NX",
		SHAs:         []string{"a08c9c69b7c07ae2485190873b90d128a23e502d"},
		Fingerprints: []string{"7843fe94e081dad6d9920a523c280422"},
		run:          laravelAdd,
	},
	{
		Library: "laravel lock release",
		SHAs: []string{
			"647c65a442733a1aa440f99908d249d13b4d6c4a",
			"a50243715157b186c5162c69e02eff3bf0c7994a",
		},
		Fingerprints: []string{"b681df00d5d69a1e23e86dff298e7a3b"},
		run:          laravelRelease,
	},
	{
		Library: "laravel throttle", Instead: "CL.THROTTLE key max-1 max decay",
		SHAs:         []string{"29cc07bd431ccbf64637e5dcb60484560fdfa2da"},
		Fingerprints: []string{"cc964e1ba976d8a6c9344f327ffd0d01"},
		run:          laravelThrottle,
	},
	{
		Library: "laravel throttle tooManyAttempts", Instead: "CL.THROTTLE key max-1 max decay 0",
		SHAs:         []string{"1c5d436d6863e949247f4fa66fa1e32b7fa18da9"},
		Fingerprints: []string{"b846c7c21584574d743d402da3a12128"},
		Reads:        true, run: laravelTooMany,
	},
	{
		Library:      "laravel funnel lock",
		SHAs:         []string{"420ca604de4310d8301943a71390ee669720d640"},
		Fingerprints: []string{"27a8571121b630fd695958f9af9ca767"},
		run:          laravelFunnel,
	},
}

// laravelAdd sets a key that does not exist.
func laravelAdd(c *Call) bool {
	if !c.has(1, 2) {
		return false
	}
	n, ok := integer(c.Args[1])
	if !ok {
		return false
	}
	at, ok := c.after(n, time.Second)
	if !ok {
		return false
	}
	v := c.open(c.Keys[0], engine.Counter)
	if v == nil {
		return false
	}
	defer v.Close()
	if v.Exists() {
		c.W.Null()
		return true
	}
	if err := v.Set(c.Args[0]); err != nil {
		return c.failed(err)
	}
	v.SetDeadline(at)
	c.W.OK()
	return true
}

// laravelRelease deletes a key that has the value of its owner.
func laravelRelease(c *Call) bool {
	if !c.has(1, 1) {
		return false
	}
	v := c.open(c.Keys[0], engine.Counter)
	if v == nil {
		return false
	}
	defer v.Close()
	if !v.Exists() || !bytes.Equal(v.Bytes(), c.Args[0]) {
		c.W.Int(0)
		return true
	}
	v.Delete()
	c.W.Int(1)
	return true
}

// Fields of the hash of laravelThrottle: the second in which a window began, the
// one in which it ends, and how many calls there were.
var (
	fieldStart = []byte("start")
	fieldEnd   = []byte("end")
	fieldCount = []byte("count")
)

// laravelWindow is a window of laravelThrottle at a call.
type laravelWindow struct {
	end   []byte // as it is stored
	count int64
	// within: the call's time is in it. Texts of times are compared as such.
	within bool
}

// read reads the window of a hash that exists; ok is false for a hash that is
// none.
func (l *laravelWindow) read(h *packed.Hash, now []byte) (ok bool) {
	start, ok := h.Get(fieldStart)
	if !ok {
		return false
	}
	if bytes.Compare(now, start) < 0 {
		return true
	}
	if l.end, ok = h.Get(fieldEnd); !ok || bytes.Compare(now, l.end) > 0 {
		return ok
	}
	l.within = true
	count, ok := h.Get(fieldCount)
	if !ok {
		return false
	}
	l.count, ok = whole(count)
	return ok
}

// laravelArguments are those of both scripts of Redis::throttle: the time, in s
// with and without fraction, the length of a window in s, and the limit.
func (c *Call) laravelArguments() (end, decay, most int64, ok bool) {
	if !c.has(1, 4) {
		return 0, 0, 0, false
	}
	second, ok1 := whole(c.Args[1])
	decay, ok2 := whole(c.Args[2])
	most, ok3 := whole(c.Args[3])
	return second + decay, decay, most, ok1 && ok2 && ok3
}

// laravelThrottle counts a call in a window of the caller's time.
func laravelThrottle(c *Call) bool {
	end, decay, most, ok := c.laravelArguments()
	if !ok {
		return false
	}
	at, ok := c.after(2*decay, time.Second)
	if !ok {
		return false
	}
	v := c.open(c.Keys[0], engine.Hash)
	if v == nil {
		return false
	}
	defer v.Close()
	h := packed.NewHash(v)
	var window laravelWindow
	if v.Exists() && !window.read(&h, c.Args[0]) {
		return false
	}
	if !window.within {
		c.fields = append(c.fields[:0], fieldStart, c.Args[1], fieldEnd, strconv.AppendInt(c.text[:0], end, 10), fieldCount, digitOne)
		if _, err := h.SetAll(c.fields); err != nil {
			return c.failed(err)
		}
		v.SetDeadline(at)
		c.W.Array(3)
		c.W.Int(1)
		c.W.Int(end)
		c.W.Int(most - 1)
		return true
	}
	count := window.count + 1
	if _, err := h.Set(fieldCount, strconv.AppendInt(c.text[:0], count, 10)); err != nil {
		return c.failed(err)
	}
	stored, _ := h.Get(fieldEnd)
	c.W.Array(3)
	if count <= most {
		c.W.Int(1)
	} else {
		c.W.Null()
	}
	c.W.Bulk(stored)
	c.W.Int(most - count)
	return true
}

var digitOne = []byte("1")

// laravelTooMany tells of a window what laravelThrottle would, and counts
// nothing.
func laravelTooMany(c *Call) bool {
	end, _, most, ok := c.laravelArguments()
	if !ok {
		return false
	}
	v := c.open(c.Keys[0], engine.Hash)
	if v == nil {
		return false
	}
	defer v.Close()
	h := packed.NewHash(v)
	var window laravelWindow
	if v.Exists() && !window.read(&h, c.Args[0]) {
		return false
	}
	c.W.Array(2)
	if !window.within {
		c.W.Int(0)
		c.W.Int(end)
		return true
	}
	c.W.Bulk(window.end)
	c.W.Int(most - window.count)
	return true
}

// maxFunnel is how many slots a funnel may have that is handled here.
const maxFunnel = 64

// laravelFunnel takes the first slot that is free, and tells its name.
func laravelFunnel(c *Call) bool {
	if !c.has(1, 3) || len(c.Keys) > maxFunnel {
		return false
	}
	n, ok := integer(c.Args[1])
	if !ok {
		return false
	}
	at, ok := c.after(n, time.Second)
	if !ok || !c.hold() {
		return false
	}
	return c.release(c.takeSlot(at))
}

func (c *Call) takeSlot(at int64) bool {
	for i, key := range c.Keys {
		_, taken, err := c.Sess.Get(c.Now, key, c.text[:0])
		if err != nil {
			return c.failed(err)
		}
		if taken {
			continue
		}
		if _, err := c.Sess.Set(c.Now, key, c.Args[2], &engine.SetOptions{Deadline: at}); err != nil {
			return c.failed(err)
		}
		name := append(c.text[:0], c.Args[0]...)
		c.W.Bulk(strconv.AppendInt(name, int64(i+1), 10))
		return true
	}
	c.W.Null()
	return true
}
